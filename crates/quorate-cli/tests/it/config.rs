//! The effective settings and their sources.

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

/// The row of a setting, with its columns separated by single blanks.
fn row(ended: &Ended, name: &str) -> String {
    let row = ended.out().lines().find(|line| line.starts_with(name)).expect("a row");
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn flag_precedes_environment_and_environment_precedes_file() {
    let fixture = Fixture::without_servers();
    fixture.write("file.toml", "nodes = [\"redis://file\"]\nprefix = \"f:\"\nmax_ttl = \"2m\"\n");
    let shown = config(&fixture, &[], &[]);
    assert_eq!(row(&shown, "nodes"), "nodes this machine default");
    let file = &["--config", "file.toml"][..];
    let shown = config(&fixture, &[], file);
    assert_eq!(row(&shown, "nodes"), "nodes redis://file file.toml");
    assert_eq!(row(&shown, "prefix"), "prefix f: file.toml");
    assert_eq!(row(&shown, "max_ttl"), "max_ttl 2 min file.toml");
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
fn dir_flag_selects_local_locks() {
    let fixture = Fixture::one();
    let folder = fixture.path("named").display().to_string();
    let holder = fixture.hold_with(["--dir", &folder, "x"], "held");
    assert!(fixture.servers[0].keys().is_empty(), "no node is asked");
    let told = fixture.run_until_answered(["--dir", &folder, "-n", "x", "true"]).assert_code(75);
    assert!(!told.err().contains("no nodes are configured"), "{told:?}");
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    holder.close().assert_code(0);
    let both = ["run", "--node", "redis://h", "--dir", &folder, "x", "true"];
    fixture.exec(both).assert_code(64).assert_stderr("cannot be used with");
}

#[test]
fn dir_max_ttl_and_config_follow_the_same_precedence() {
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
    assert_eq!(row(&config(&fixture, &[], &flags), "max_ttl"), "max_ttl 4 min --max-ttl");
    let variable = [("QUORATE_CONFIG", "other.toml")];
    let max_ttl = |args: &[&str]| row(&config(&fixture, &variable, args), "max_ttl");
    assert_eq!(max_ttl(&[]), "max_ttl 3 min other.toml");
    assert_eq!(max_ttl(&file), "max_ttl 2 min file.toml");
}

#[test]
fn settings_file_is_found_in_the_standard_places() {
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
fn invalid_settings_are_reported_with_line_numbers() {
    let fixture = Fixture::without_servers();
    for (text, line, expected) in [
        ("ttl = \"10s\"\nnode = \"redis://h\"\n", 2, "unknown field `node`"),
        ("nodes = [", 1, ""),
        ("\n\nttl = \"soon\"\n", 3, "use a number followed by ms, s, m or h"),
        ("ttl = true\n", 1, "expected a duration"),
        ("ttl = -1\n", 1, "invalid duration \"-1\": use a number"),
        ("max_ttl = 99999999999999999999\n", 1, ""),
        (
            "nodes = 5\n",
            1,
            ": expected a list of addresses, or a text of addresses separated by commas\n",
        ),
        ("nodes = { a = \"redis://:secret@h\" }\n", 1, "expected a list of addresses"),
        ("nodes = [[\"redis://:secret@h\"]]\n", 1, "expected a string"),
        ("quarantine = \"redis://:secret@h\"\n", 1, "expected a boolean"),
        ("durable_nodes = \"secret, expected secret\"\n", 1, ""),
        ("redis://:secret@h\n", 1, ""),
        ("\"redis://:secret@h\" = 1\n", 1, "invalid value"),
        ("tls_ca = 1\n", 1, ""),
    ] {
        fixture.write("file.toml", text);
        let ended = config(&fixture, &[], &["--config", "file.toml"]).assert_code(78);
        let ended =
            ended.assert_stderr(&format!("file.toml, line {line}: ")).assert_stderr(expected);
        assert!(!ended.err().contains("secret"), "{ended:?}");
    }
    config(&fixture, &[], &["--config", "none.toml"]).assert_code(78).assert_stderr("none.toml");
    fixture.write("file.toml", "tls_cert = \"a\"\n");
    let ended = fixture.run(["--config", "file.toml", "--node", "rediss://h", "x", "true"]);
    ended.assert_code(78).assert_stderr("tls_cert and tls_key must be set together");
    fixture.write("file.toml", "tls_ca = \"/nowhere\"\n");
    let ended = fixture.run(["--config", "file.toml", "--node", "rediss://h", "x", "true"]);
    ended.assert_code(78).assert_stderr("cannot read /nowhere");
}

#[test]
fn settings_accept_plain_seconds_and_both_forms_of_addresses() {
    let fixture = Fixture::without_servers();
    for (text, name, value) in [
        ("ttl = 5", "ttl", "5 s"),
        ("ttl = 1.5", "ttl", "1.5 s"),
        ("max_ttl = 120", "max_ttl", "2 min"),
        ("max_ttl = \"120\"", "max_ttl", "2 min"),
        ("nodes = \"redis://a, redis://b\"", "nodes", "redis://a,redis://b"),
        ("nodes = [\"redis://a\", \"redis://b\"]", "nodes", "redis://a,redis://b"),
    ] {
        fixture.write("file.toml", text);
        let shown = config(&fixture, &[], &["--config", "file.toml"]).assert_code(0);
        assert_eq!(row(&shown, name), format!("{name} {value} file.toml"), "{text}");
    }
}

#[test]
fn default_ttl_does_not_exceed_max_ttl() {
    let fixture = Fixture::without_servers();
    let shown = config(&fixture, &[], &["--max-ttl", "5s"]);
    assert_eq!(row(&shown, "ttl"), "ttl 5 s default");
    fixture.run(["--max-ttl", "5s", "x", "true"]).assert_code(0);
    fixture.write("file.toml", "max_ttl = 5\n");
    fixture.run(["--config", "file.toml", "x", "true"]).assert_code(0);
    // An explicit ttl is never changed silently.
    fixture
        .run(["--max-ttl", "5s", "--ttl", "6s", "x", "true"])
        .assert_code(64)
        .assert_stderr("max_ttl");
    fixture.write("file.toml", "ttl = 10\n");
    let ended = fixture.run(["--config", "file.toml", "--max-ttl", "5s", "x", "true"]);
    ended.assert_code(78).assert_stderr("longer than max_ttl, which is 5 s (--max-ttl)");
}

/// Local locks would not exclude the clients of the nodes.
#[test]
fn invalid_node_settings_never_select_local_locks() {
    let fixture = Fixture::without_servers();
    for variable in ["QUORATE_NODES", "VALKEY_URL", "REDIS_URL"] {
        for (value, told) in [
            (&b"redis://h\xff"[..], "is not UTF-8"),
            (b",", "contains no node address"),
            (b" ", "contains no node address"),
        ] {
            for args in [&["run", "-n", "x", "true"][..], &["acquire", "-n", "x"], &["config"]] {
                let mut command = fixture.quorate(args.iter().copied());
                command.env(variable, OsStr::from_bytes(value));
                let ended = Running::start(&mut command).close().assert_code(78);
                ended.assert_stderr(&format!("${variable} {told}"));
            }
        }
        let shown = config(&fixture, &[(variable, "")], &[]).assert_code(0);
        assert_eq!(row(&shown, "nodes"), "nodes this machine default");
    }
    for text in ["nodes = []\n", "nodes = \",\"\n"] {
        fixture.write("file.toml", text);
        let ended = fixture.run(["--config", "file.toml", "x", "true"]).assert_code(78);
        ended.assert_stderr("`nodes` of file.toml contains no node address");
        fixture.run(["--config", "file.toml", "--local", "x", "true"]).assert_code(0);
    }
}

/// The nodes may be configured in it.
#[test]
fn inaccessible_settings_file_is_an_error() {
    let fixture = Fixture::without_servers();
    fixture.run(["x", "true"]).assert_code(0);
    for folder in [".config", ".config/quorate"] {
        symlink("/nowhere", fixture.path(folder)).expect("a link");
        fixture.run(["x", "true"]).assert_code(78).assert_stderr("cannot tell whether ");
        fs::remove_file(fixture.path(folder)).expect("it is there");
        fixture.write(folder, "a file and no folder");
        fixture.run(["x", "true"]).assert_code(0);
        fs::remove_file(fixture.path(folder)).expect("it is there");
        fs::create_dir(fixture.path(folder)).expect("a folder");
        fixture.run(["x", "true"]).assert_code(0);
    }
    let file = fixture.path(".config/quorate/config.toml");
    symlink("/nowhere", &file).expect("a link");
    fixture.run(["x", "true"]).assert_code(78).assert_stderr("cannot read ");
    fs::remove_file(&file).expect("it is there");
    symlink("config.toml", &file).expect("a link");
    fixture.run(["x", "true"]).assert_code(78).assert_stderr("cannot read ");
    fs::remove_file(&file).expect("it is there");
    fixture.write(".config/quorate/config.toml", "nodes = \"redis://h\"\n");
    let nobody = fs::Permissions::from_mode(0o000);
    fs::set_permissions(fixture.path(".config/quorate"), nobody).expect("it is ours");
    let ended = as_somebody_else(&fixture, &["run", "x", "true"], |_| {}).assert_code(78);
    ended.assert_stderr("config.toml exists: Permission denied").assert_stderr("QUORATE_CONFIG");
    let named = |command: &mut Command| {
        command.env("QUORATE_CONFIG", "/dev/null").env("QUORATE_DIR", "/dev/null/none");
    };
    as_somebody_else(&fixture, &["config"], named).assert_code(0);
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.path(".config/quorate"), everybody).expect("it is ours");
}

#[test]
fn settings_file_can_be_a_pipe() {
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
fn invalid_ttl_in_the_file_is_78() {
    let fixture = Fixture::without_servers();
    for (text, told) in [
        ("ttl = \"90s\"\n", "invalid ttl (file.toml): it is 1 min 30 s, longer than max_ttl"),
        ("ttl = 3\nmax_ttl = 2\n", "longer than max_ttl, which is 2 s (file.toml)"),
        ("ttl = 0\n", "invalid ttl (file.toml): it is zero"),
        ("max_ttl = 0\n", "invalid ttl (file.toml): it is zero"),
    ] {
        fixture.write("file.toml", text);
        for args in [&["run", "x", "true"][..], &["acquire", "-n", "x"], &["config"]] {
            let args = [args[0], "--config", "file.toml"].into_iter().chain(args[1..].to_vec());
            fixture.exec(args).assert_code(78).assert_stderr(told);
        }
    }
    fixture.write("file.toml", "ttl = \"90s\"\n");
    fixture.run(["--config", "file.toml", "--ttl", "5s", "x", "true"]).assert_code(0);
    fixture.run(["--config", "file.toml", "--max-ttl", "2m", "x", "true"]).assert_code(0);
    fixture.write("file.toml", "ttl = \"50ms\"\n");
    let ended = fixture.run(["--config", "file.toml", "x", "true"]).assert_code(78);
    ended.assert_stderr("too short to stop the command");
}

#[test]
fn missing_home_names_the_flag_that_helps() {
    let fixture = Fixture::without_servers();
    let ended = as_somebody_else(&fixture, &["run", "x", "true"], |command| {
        command.env_remove("HOME").env_remove("QUORATE_DIR");
    });
    let ended = ended.assert_code(78).assert_stderr("use --dir, or set QUORATE_DIR or HOME");
    assert!(!ended.err().contains("ClientBuilder"), "{ended:?}");
}

/// Runs the binary as an unprivileged user: root may enter every folder, and needs no home.
fn as_somebody_else(fixture: &Fixture, args: &[&str], prepare: impl FnOnce(&mut Command)) -> Ended {
    // This user must be able to reach the binary.
    let copy = fixture.path("quorate");
    // Copied by another process: a file that is open for writing cannot be executed, and processes
    // that tests start in the meantime would inherit the descriptor for a moment.
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
fn readable_password_causes_a_warning_and_is_never_shown() {
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
fn secrets_in_any_part_of_an_address_are_not_shown() {
    let fixture = Fixture::without_servers();
    let nodes = "redis://s3cret@h2,redis://h3?password=s3cret,redis://u:1/s3cret@h4";
    let shown = ["redis://***@h2", "redis://h3?password=***", "redis://u:***@h4"];
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
fn errors_are_json_if_requested() {
    let fixture = Fixture::without_servers();
    let ended = config(&fixture, &[], &["--config", "none.toml", "-o", "json"]).assert_code(78);
    let expected = r#"{"error":{"code":78,"kind":"config","message":"#;
    assert!(ended.err().starts_with(expected), "{ended:?}");
    let ended = config(&fixture, &[], &["--fly", "-o", "json"]).assert_code(64);
    let expected = r#"{"error":{"code":64,"kind":"usage","message":"unexpected argument '--fly'"#;
    assert!(ended.err().starts_with(expected), "{ended:?}");
}

/// An unprivileged user.
const NOBODY: u32 = 65_534;
