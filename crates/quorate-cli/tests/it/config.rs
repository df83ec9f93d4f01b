//! Which settings are in force, and from where.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    process::Command,
};

use crate::fixture::{Ended, Fixture, Running};

fn config(fixture: &Fixture, variables: &[(&str, &str)], args: &[&str]) -> Ended {
    let mut command = fixture.quorate(["config"].into_iter().chain(args.iter().copied()));
    command.envs(variables.iter().copied());
    Running::start(&mut command).close()
}

/// The row of a setting, with one blank between its columns.
fn row(ended: &Ended, name: &str) -> String {
    let row = ended.out().lines().find(|line| line.starts_with(name)).expect("a row");
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_flag_counts_before_the_environment_and_that_before_the_file() {
    let fixture = Fixture::without_servers();
    fixture.write("file.toml", "nodes = [\"redis://file\"]\nprefix = \"f:\"\nmax_ttl = \"2m\"\n");
    let shown = config(&fixture, &[], &[]);
    assert_eq!(row(&shown, "nodes"), "nodes this machine default");
    let file = &["--config", "file.toml"][..];
    let shown = config(&fixture, &[], file);
    assert_eq!(row(&shown, "nodes"), "nodes redis://file file.toml");
    assert_eq!(row(&shown, "prefix"), "prefix f: file.toml");
    assert_eq!(row(&shown, "max_ttl"), "max_ttl 2 min 0 s file.toml");
    let mut variables = vec![("REDIS_URL", "redis://r")];
    assert_eq!(row(&config(&fixture, &variables, file), "nodes"), "nodes redis://r $REDIS_URL");
    variables.push(("VALKEY_URL", "redis://v"));
    assert_eq!(row(&config(&fixture, &variables, file), "nodes"), "nodes redis://v $VALKEY_URL");
    variables.push(("QUORATE_NODES", "redis://a, redis://b"));
    let shown = config(&fixture, &variables, file);
    assert_eq!(row(&shown, "nodes"), "nodes redis://a,redis://b $QUORATE_NODES");
    let flags = ["--config", "file.toml", "--node", "redis://flag", "--prefix", "p:"];
    let shown = config(&fixture, &variables, &flags);
    assert_eq!(row(&shown, "nodes"), "nodes redis://flag --node");
    assert_eq!(row(&shown, "prefix"), "prefix p: --prefix");
    let shown = config(&fixture, &variables, &["--local"]);
    assert_eq!(row(&shown, "nodes"), "nodes this machine --local");
    let shown = config(&fixture, &variables, &["--config", "file.toml", "--dir", "/flag"]);
    assert_eq!(row(&shown, "nodes"), "nodes this machine --dir");
    variables.push(("QUORATE_DIR", "/variable"));
    let shown = config(&fixture, &variables, file);
    assert_eq!(row(&shown, "nodes"), "nodes redis://a,redis://b $QUORATE_NODES");
}

#[test]
fn a_folder_that_is_named_by_a_flag_is_that_of_the_locks() {
    let fixture = Fixture::one();
    let folder = fixture.path("named").display().to_string();
    let holder = fixture.hold_with(["--dir", &folder, "x"], "held");
    assert!(fixture.servers[0].keys().is_empty(), "no node is asked");
    let told = fixture.run(["--dir", &folder, "-n", "x", "true"]).assert_code(75);
    assert!(!told.err().contains("no nodes are configured"), "{told:?}");
    fixture.run(["-n", "x", "true"]).assert_code(0);
    holder.close().assert_code(0);
    let both = ["run", "--node", "redis://h", "--dir", &folder, "x", "true"];
    fixture.say(both).assert_code(64).assert_says("cannot be used with");
}

#[test]
fn the_folder_the_longest_ttl_and_the_file_itself_have_the_same_order() {
    let fixture = Fixture::without_servers();
    fixture.write("file.toml", "dir = \"/file\"\nmax_ttl = \"2m\"\n");
    fixture.write("other.toml", "max_ttl = \"3m\"\n");
    let file = ["--config", "file.toml"];
    let flags = ["--config", "file.toml", "--dir", "/flag", "--max-ttl", "4m"];
    for (args, dir, shown) in [
        (&file[..], "", "dir /file file.toml"),
        (&file, "/variable", "dir /variable $QUORATE_DIR"),
        (&flags, "/variable", "dir /flag --dir"),
    ] {
        assert_eq!(row(&config(&fixture, &[("QUORATE_DIR", dir)], args), "dir"), shown);
    }
    assert_eq!(row(&config(&fixture, &[], &flags), "max_ttl"), "max_ttl 4 min 0 s --max-ttl");
    let variable = [("QUORATE_CONFIG", "other.toml")];
    let max_ttl = |args: &[&str]| row(&config(&fixture, &variable, args), "max_ttl");
    assert_eq!(max_ttl(&[]), "max_ttl 3 min 0 s other.toml");
    assert_eq!(max_ttl(&file), "max_ttl 2 min 0 s file.toml");
}

#[test]
fn the_file_is_found_where_files_of_settings_are() {
    let fixture = Fixture::without_servers();
    fs::create_dir_all(fixture.path(".config/quorate")).expect("a folder");
    fixture.write(".config/quorate/config.toml", "who = \"home\"\n");
    assert!(row(&config(&fixture, &[], &[]), "who").starts_with("who home "));
    fs::create_dir_all(fixture.path("xdg/quorate")).expect("a folder");
    fixture.write("xdg/quorate/config.toml", "who = \"xdg\"\n");
    let xdg = fixture.path("xdg").display().to_string();
    assert!(
        row(&config(&fixture, &[("XDG_CONFIG_HOME", &xdg)], &[]), "who").starts_with("who xdg ")
    );
    fixture.write("named.toml", "who = \"named\"\n");
    let variables = [("XDG_CONFIG_HOME", &*xdg), ("QUORATE_CONFIG", "named.toml")];
    assert_eq!(row(&config(&fixture, &variables, &[]), "who"), "who named named.toml");
}

#[test]
fn wrong_files_are_told_with_their_lines() {
    let fixture = Fixture::without_servers();
    for (text, line, expected) in [
        ("ttl = \"10s\"\nnode = \"redis://h\"\n", 2, "unknown field `node`"),
        ("nodes = [", 1, ""),
        ("\n\nttl = \"soon\"\n", 3, "write 500ms"),
        ("ttl = true\n", 1, "expected a length of time"),
        ("ttl = -1\n", 1, "`-1` is no length of time: write 500ms"),
        ("max_ttl = 99999999999999999999\n", 1, ""),
        ("nodes = 5\n", 1, ": expected a list of addresses, or one text with commas between\n"),
        ("nodes = { a = \"redis://:secret@h\" }\n", 1, "expected a list of addresses"),
        ("nodes = [[\"redis://:secret@h\"]]\n", 1, "expected a string"),
        ("quarantine = \"redis://:secret@h\"\n", 1, "expected a boolean"),
        ("durable_nodes = \"secret, expected secret\"\n", 1, ""),
        ("redis://:secret@h\n", 1, ""),
        ("\"redis://:secret@h\" = 1\n", 1, "this is not what belongs here"),
        ("tls_ca = 1\n", 1, ""),
    ] {
        fixture.write("file.toml", text);
        let ended = config(&fixture, &[], &["--config", "file.toml"]).assert_code(78);
        let ended = ended.assert_says(&format!("file.toml, line {line}: ")).assert_says(expected);
        assert!(!ended.err().contains("secret"), "{ended:?}");
    }
    config(&fixture, &[], &["--config", "none.toml"]).assert_code(78).assert_says("none.toml");
    fixture.write("file.toml", "tls_cert = \"a\"\n");
    let ended = fixture.run(["--config", "file.toml", "--node", "rediss://h", "x", "true"]);
    ended.assert_code(78).assert_says("tls_cert and tls_key go together");
    fixture.write("file.toml", "tls_ca = \"/nowhere\"\n");
    let ended = fixture.run(["--config", "file.toml", "--node", "rediss://h", "x", "true"]);
    ended.assert_code(78).assert_says("/nowhere cannot be read");
}

#[test]
fn a_number_alone_is_seconds_and_addresses_are_a_list_or_a_text() {
    let fixture = Fixture::without_servers();
    for (text, name, value) in [
        ("ttl = 5", "ttl", "5.0 s"),
        ("ttl = 1.5", "ttl", "1.5 s"),
        ("max_ttl = 120", "max_ttl", "2 min 0 s"),
        ("max_ttl = \"120\"", "max_ttl", "2 min 0 s"),
        ("nodes = \"redis://a, redis://b\"", "nodes", "redis://a,redis://b"),
        ("nodes = [\"redis://a\", \"redis://b\"]", "nodes", "redis://a,redis://b"),
    ] {
        fixture.write("file.toml", text);
        let shown = config(&fixture, &[], &["--config", "file.toml"]).assert_code(0);
        assert_eq!(row(&shown, name), format!("{name} {value} file.toml"), "{text}");
    }
}

#[test]
fn a_ttl_that_nobody_gave_is_not_longer_than_the_longest() {
    let fixture = Fixture::without_servers();
    let shown = config(&fixture, &[], &["--max-ttl", "5s"]);
    assert_eq!(row(&shown, "ttl"), "ttl 5.0 s default");
    fixture.run(["--max-ttl", "5s", "x", "true"]).assert_code(0);
    fixture.write("file.toml", "max_ttl = 5\n");
    fixture.run(["--config", "file.toml", "x", "true"]).assert_code(0);
    // One that was given is not changed in silence.
    fixture
        .run(["--max-ttl", "5s", "--ttl", "6s", "x", "true"])
        .assert_code(64)
        .assert_says("max_ttl");
    fixture.write("file.toml", "ttl = 10\n");
    let ended = fixture.run(["--config", "file.toml", "--max-ttl", "5s", "x", "true"]);
    ended.assert_code(78).assert_says("longer than max_ttl, which is 5.0 s (--max-ttl)");
}

/// Locks of this machine would exclude nobody of those who use the nodes.
#[test]
fn nodes_that_cannot_be_understood_are_not_taken_for_none() {
    let fixture = Fixture::without_servers();
    for variable in ["QUORATE_NODES", "VALKEY_URL", "REDIS_URL"] {
        for (value, told) in [
            (&b"redis://h\xff"[..], "is not UTF-8"),
            (b",", "names no node"),
            (b" ", "names no node"),
        ] {
            for args in [&["run", "-n", "x", "true"][..], &["acquire", "-n", "x"], &["config"]] {
                let mut command = fixture.quorate(args.iter().copied());
                command.env(variable, OsStr::from_bytes(value));
                let ended = Running::start(&mut command).close().assert_code(78);
                ended.assert_says(&format!("${variable} {told}"));
            }
        }
        let shown = config(&fixture, &[(variable, "")], &[]).assert_code(0);
        assert_eq!(row(&shown, "nodes"), "nodes this machine default");
    }
    for text in ["nodes = []\n", "nodes = \",\"\n"] {
        fixture.write("file.toml", text);
        let ended = fixture.run(["--config", "file.toml", "x", "true"]).assert_code(78);
        ended.assert_says("`nodes` of file.toml names no node");
        fixture.run(["--config", "file.toml", "--local", "x", "true"]).assert_code(0);
    }
}

/// The nodes may stand in it.
#[test]
fn a_file_of_settings_that_cannot_be_seen_is_not_taken_for_none() {
    let fixture = Fixture::without_servers();
    fixture.run(["x", "true"]).assert_code(0);
    for folder in [".config", ".config/quorate"] {
        symlink("/nowhere", fixture.path(folder)).expect("a link");
        fixture.run(["x", "true"]).assert_code(78).assert_says("cannot be seen");
        fs::remove_file(fixture.path(folder)).expect("it is there");
        fixture.write(folder, "a file and no folder");
        fixture.run(["x", "true"]).assert_code(0);
        fs::remove_file(fixture.path(folder)).expect("it is there");
        fs::create_dir(fixture.path(folder)).expect("a folder");
        fixture.run(["x", "true"]).assert_code(0);
    }
    let file = fixture.path(".config/quorate/config.toml");
    symlink("/nowhere", &file).expect("a link");
    fixture.run(["x", "true"]).assert_code(78).assert_says("config.toml cannot be read");
    fs::remove_file(&file).expect("it is there");
    symlink("config.toml", &file).expect("a link");
    fixture.run(["x", "true"]).assert_code(78).assert_says("config.toml cannot be read");
    fs::remove_file(&file).expect("it is there");
    fixture.write(".config/quorate/config.toml", "nodes = \"redis://h\"\n");
    let nobody = fs::Permissions::from_mode(0o000);
    fs::set_permissions(fixture.path(".config/quorate"), nobody).expect("it is ours");
    let ended = as_somebody_else(&fixture, &["run", "x", "true"], |_| {}).assert_code(78);
    ended.assert_says("cannot be seen: Permission denied").assert_says("QUORATE_CONFIG");
    let named = |command: &mut Command| {
        command.env("QUORATE_CONFIG", "/dev/null").env("QUORATE_DIR", "/dev/null/none");
    };
    as_somebody_else(&fixture, &["config"], named).assert_code(0);
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.path(".config/quorate"), everybody).expect("it is ours");
}

#[test]
fn a_file_of_settings_can_be_a_pipe() {
    let fixture = Fixture::without_servers();
    let script = format!(
        "{} config --config <(echo 'nodes = \"redis://:secret@h\"')",
        env!("CARGO_BIN_EXE_quorate")
    );
    let mut command = Command::new("bash");
    fixture.prepare(&mut command);
    let shown = Running::start(command.args(["-c", &script])).close().assert_code(0);
    assert!(row(&shown, "nodes").starts_with("nodes redis://:***@h /dev/fd/"), "{shown:?}");
    assert_eq!(shown.err(), "");
}

#[test]
fn a_ttl_of_the_file_that_cannot_be_is_78() {
    let fixture = Fixture::without_servers();
    for (text, told) in [
        ("ttl = \"90s\"\n", "the ttl of file.toml is 1 min 30 s, longer than max_ttl"),
        ("ttl = 3\nmax_ttl = 2\n", "longer than max_ttl, which is 2.0 s (file.toml)"),
        ("ttl = 0\n", "the ttl of file.toml is no time at all"),
        ("max_ttl = 0\n", "the ttl of file.toml is no time at all"),
    ] {
        fixture.write("file.toml", text);
        for args in [&["run", "x", "true"][..], &["acquire", "-n", "x"], &["config"]] {
            let args = [args[0], "--config", "file.toml"].into_iter().chain(args[1..].to_vec());
            fixture.say(args).assert_code(78).assert_says(told);
        }
    }
    fixture.write("file.toml", "ttl = \"90s\"\n");
    fixture.run(["--config", "file.toml", "--ttl", "5s", "x", "true"]).assert_code(0);
    fixture.run(["--config", "file.toml", "--max-ttl", "2m", "x", "true"]).assert_code(0);
    fixture.write("file.toml", "ttl = \"50ms\"\n");
    let ended = fixture.run(["--config", "file.toml", "x", "true"]).assert_code(78);
    ended.assert_says("too short for a command");
}

#[test]
fn a_user_without_a_home_is_told_which_flag_helps() {
    let fixture = Fixture::without_servers();
    let ended = as_somebody_else(&fixture, &["run", "x", "true"], |command| {
        command.env_remove("HOME").env_remove("QUORATE_DIR");
    });
    let ended = ended.assert_code(78).assert_says("--dir or QUORATE_DIR");
    assert!(!ended.err().contains("ClientBuilder"), "{ended:?}");
}

/// Runs the binary as somebody who is not root: root may enter every folder, and needs no home.
fn as_somebody_else(fixture: &Fixture, args: &[&str], prepare: impl FnOnce(&mut Command)) -> Ended {
    // Who must be able to reach the binary.
    let copy = fixture.path("quorate");
    // By another process: a file that somebody has open for writing cannot be executed, and every
    // process that a test starts meanwhile would have it open for a moment.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_quorate")).arg(&copy).status();
    assert!(copied.expect("it runs").success());
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.folder(), everybody).expect("it is ours");
    let mut command = Command::new(copy);
    fixture.prepare(&mut command);
    prepare(command.args(args));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY);
    }
    Running::start(&mut command).close()
}

#[test]
fn a_password_that_others_can_read_is_warned_of_and_never_shown() {
    let fixture = Fixture::without_servers();
    fixture.write("file.toml", "nodes = [\"redis://user:secret@h\", \"unix:///s?pass=secret\"]\n");
    for (mode, is_warned) in [(0o644, true), (0o640, true), (0o600, false)] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(fixture.path("file.toml"), permissions).expect("it is ours");
        for form in ["table", "json"] {
            let ended =
                config(&fixture, &[], &["--config", "file.toml", "-o", form]).assert_code(0);
            assert!(ended.out().contains("redis://user:***@h"), "{ended:?}");
            assert!(!format!("{ended:?}").contains("secret"), "{ended:?}");
            assert_eq!(ended.err().contains("chmod 600"), is_warned && form == "table");
        }
        let ended =
            fixture.run(["--config", "file.toml", "--node", "redis://h:0", "-n", "x", "true"]);
        assert_eq!(ended.err().contains("chmod 600"), is_warned, "{ended:?}");
    }
}

#[test]
fn a_secret_is_not_shown_wherever_it_stands_in_an_address() {
    let fixture = Fixture::without_servers();
    let nodes = "redis://s3cret@h2,redis://h3?password=s3cret,redis://u:1/s3cret@h4";
    let shown = ["redis://***@h2", "redis://h3?password=***", "(not an address)"];
    let variables = [("QUORATE_NODES", nodes)];
    let ended = config(&fixture, &variables, &[]).assert_code(0);
    assert_eq!(row(&ended, "nodes"), format!("nodes {} $QUORATE_NODES", shown.join(",")));
    assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
    let ended = config(&fixture, &variables, &["-o", "json"]).assert_code(0);
    let json: serde_json::Value = serde_json::from_str(ended.out()).expect("JSON");
    assert_eq!(json["settings"]["nodes"]["value"], serde_json::json!(shown));
    assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
}

#[test]
fn errors_are_json_where_that_is_asked_for() {
    let fixture = Fixture::without_servers();
    let ended = config(&fixture, &[], &["--config", "none.toml", "-o", "json"]).assert_code(78);
    let expected = r#"{"error":{"code":78,"kind":"config","message":"#;
    assert!(ended.err().starts_with(expected), "{ended:?}");
    let ended = config(&fixture, &[], &["--fly", "-o", "json"]).assert_code(64);
    let expected = r#"{"error":{"code":64,"kind":"usage","message":"unexpected argument '--fly'"#;
    assert!(ended.err().starts_with(expected), "{ended:?}");
}

/// Somebody who is not root.
const NOBODY: u32 = 65_534;
