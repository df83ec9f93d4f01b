//! The files in `deploy/` start the service with existing flags, and agree with each other.

use std::{fs, path::Path};

use quorate_testkit::Server;
use yaml_rust2::{Yaml, YamlLoader};

use crate::fixture::{Fixture, Running};

#[test]
fn systemd_unit_matches_the_service() {
    let unit = read("systemd/quorate.service");
    let value = |key: &str| {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let [value] = lines.collect::<Vec<_>>()[..] else { panic!("{key} is not there once") };
        value
    };
    let mut words = value("ExecStart").split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("/usr/bin/quorate"));
    let args: Vec<String> = words.collect();
    assert_understood(&args);
    let (credential, _) = value("LoadCredential").split_once(':').expect("an id and a path");
    assert_eq!(flag(&args, "--tokens"), format!("${{CREDENTIALS_DIRECTORY}}/{credential}"));
    assert!(seconds(value("TimeoutStopSec")) > seconds(flag(&args, "--grace")));
}

/// As installed, and with all its settings enabled.
#[test]
fn sample_settings_are_valid() {
    let fixture = Fixture::without_servers();
    let sample = read("debian/config.toml");
    let is_setting = |line: &str| line.starts_with(|it: char| it.is_ascii_lowercase());
    assert!(!sample.lines().any(is_setting), "installing the package sets nothing");
    let enable = |line: &str| match line.strip_prefix('#').filter(|rest| is_setting(rest)) {
        Some(setting) => format!("{setting}\n"),
        None => format!("{line}\n"),
    };
    let enabled: String = sample.lines().map(enable).collect();
    assert!(enabled.lines().filter(|line| is_setting(line)).count() > 5, "{enabled}");
    for text in [&sample, &enabled] {
        fixture.write("config.toml", text);
        fixture.exec(["config", "--config", "config.toml"]).assert_code(0);
    }
}

#[test]
fn examples_run_the_command_with_existing_flags() {
    let fixture = Fixture::without_servers();
    for file in ["crontab", "nightly-backup.service"] {
        let text = read(&format!("examples/{file}"));
        let line = text.lines().find_map(|line| Some(line.split_once("quorate run ")?.1));
        let line = line.expect("it runs the command").replace("/usr/local/bin/backup", "true");
        // The test need not wait.
        let line = line.replace("--min-hold 1m", "--min-hold 1ms");
        fixture.run(line.split_whitespace()).assert_code(0);
    }
}

#[test]
fn image_starts_the_service() {
    let file = read("docker/Dockerfile");
    let instruction = |name: &str| {
        let line = file.lines().filter_map(|line| line.strip_prefix(name)).next_back();
        line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    };
    let words = |name: &str| -> Vec<String> {
        serde_json::from_str(&instruction(name)).expect("a list of words: there is no shell")
    };
    assert_eq!(words("ENTRYPOINT"), ["/usr/bin/quorate"]);
    assert_understood(&words("CMD"));
    assert_eq!(instruction("EXPOSE"), port(flag(&words("CMD"), "--listen")).to_string());
    assert_eq!(
        (instruction("FROM"), instruction("USER")),
        ("scratch".into(), "65532:65532".into())
    );
}

#[test]
fn kubernetes_deployment_matches_the_service() {
    let deployment = yaml("kubernetes/deployment.yaml");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args = texts(&container["args"]);
    assert_understood(&args);
    let port_named = |name: &str| {
        let ports = container["ports"].as_vec().expect("ports");
        let found = ports.iter().find(|it| it["name"].as_str() == Some(name));
        found.and_then(|it| it["containerPort"].as_i64()).unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(port_named("https"), port(flag(&args, "--listen")));
    assert_eq!(port_named("metrics"), port(flag(&args, "--metrics")));
    let api = quorate_server::openapi();
    for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        assert_eq!(container[probe]["httpGet"]["path"].as_str(), Some(path));
        assert!(api.paths.paths.contains_key(path), "{path}");
    }
    let stop = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_i64().expect("seconds");
    let longest = stop + seconds(flag(&args, "--grace"));
    assert!(pod["terminationGracePeriodSeconds"].as_i64() > Some(longest));
    // Every file in a flag is in a volume.
    let mounts = container["volumeMounts"].as_vec().expect("mounts");
    for flag_name in ["--tokens", "--tls-cert", "--tls-key"] {
        let file = flag(&args, flag_name);
        let is_above =
            |mount: &Yaml| mount["mountPath"].as_str().is_some_and(|it| file.starts_with(it));
        assert!(mounts.iter().any(is_above), "{file}");
    }
}

#[test]
fn files_of_kubernetes_select_the_instances() {
    let labels = &yaml("kubernetes/deployment.yaml")["spec"]["template"]["metadata"]["labels"];
    let selectors = [
        ("deployment.yaml", &["spec", "selector", "matchLabels"][..]),
        ("service.yaml", &["spec", "selector"]),
        ("disruption-budget.yaml", &["spec", "selector", "matchLabels"]),
        ("network-policy.yaml", &["spec", "podSelector", "matchLabels"]),
    ];
    let all = texts(&yaml("kubernetes/kustomization.yaml")["resources"]);
    assert_eq!(all, selectors.map(|(file, _)| file.to_owned()));
    for (file, path) in selectors {
        let document = yaml(&format!("kubernetes/{file}"));
        let selector = path.iter().fold(&document, |it, key| &it[*key]);
        assert_eq!(selector, labels, "{file}");
    }
}

/// The settings and the command lines of the compose file, with servers outside of containers.
#[test]
fn compose_file_starts_nodes_that_are_admitted_by_its_own_command_only() {
    let services = &yaml("compose/compose.yaml")["services"];
    let nodes = ["node-1", "node-2", "node-3"];
    let fixture = Fixture::with(nodes.iter().map(|name| server(&services[*name])).collect(), "");
    let mut urls =
        services["admit"]["environment"]["QUORATE_NODES"].as_str().expect("a text").to_owned();
    for (name, server) in nodes.iter().zip(&fixture.servers) {
        urls = urls.replace(&format!("redis://{name}"), &server.url());
    }
    let run = |service: &str| {
        let args = texts(&services[service]["command"]);
        let mut command = fixture.quorate(args.iter().map(String::as_str));
        Running::start(command.env("QUORATE_NODES", &urls)).close()
    };
    run("quorate").assert_code(69).assert_stderr("0 of 3 vote; no majority");
    assert_eq!(run("admit").assert_code(0).out(), "3 nodes vote\n");
    run("quorate").assert_code(0);
    fixture.exec(["run", "x", "true"]).assert_code(0);

    // Only a person starts it, and compose does not start it again.
    assert_eq!(texts(&services["admit"]["profiles"]), ["operator"]);
    assert_eq!(services["admit"]["restart"].as_str(), Some("no"));
    let serve = texts(&services["serve"]["command"]);
    assert_understood(&serve);
    let published = format!("127.0.0.1:8420:{}", port(flag(&serve, "--listen")));
    assert_eq!(texts(&services["serve"]["ports"]), [published]);
    for service in ["admit", "serve"] {
        for node in nodes {
            let condition = services[service]["depends_on"][node]["condition"].as_str();
            assert_eq!(condition, Some("service_healthy"), "{service}");
        }
    }
    for service in ["serve", "quorate"] {
        let environment = &services[service]["environment"];
        assert_eq!(environment, &services["admit"]["environment"], "all use the same addresses");
    }
}

/// A real server with the flags of a service.
#[track_caller]
fn server(service: &Yaml) -> Server {
    let command = texts(&service["command"]);
    assert_eq!(command[0], "redis-server");
    let pairs = command[1..].chunks(2);
    let server = pairs.fold(Server::builder(), |server, pair| match pair {
        [name, value] => server.config(name.trim_start_matches("--"), value),
        _ => panic!("a flag without a value: {command:?}"),
    });
    server.start()
}

/// The command accepts these arguments and their values. Invalid arguments are reported before
/// `--help` is evaluated.
#[track_caller]
fn assert_understood(args: &[String]) {
    let fixture = Fixture::without_servers();
    let with_help = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fixture.exec([&args[..], &["--help"]].concat())
    };
    assert_eq!(args[0], "serve");
    with_help(args).assert_code(0);
    for wrong in ["--no-such-flag", "--grace=5x"] {
        let args = [args, &[wrong.to_owned()]].concat();
        with_help(&args).assert_code(64);
    }
}

/// The value of a flag, in either notation.
#[track_caller]
fn flag<'a>(args: &'a [String], name: &str) -> &'a str {
    let at = args.iter().position(|it| it.split('=').next() == Some(name));
    let at = at.unwrap_or_else(|| panic!("no {name} in {args:?}"));
    args[at].split_once('=').map_or_else(|| args[at + 1].as_str(), |(_, value)| value)
}

fn port(address: &str) -> i64 {
    address.rsplit(':').next().and_then(|it| it.parse().ok()).expect("an address with a port")
}

fn seconds(time: &str) -> i64 {
    time.strip_suffix('s').and_then(|it| it.parse().ok()).expect("a number of seconds")
}

#[track_caller]
fn texts(list: &Yaml) -> Vec<String> {
    let list = list.as_vec().expect("a list");
    list.iter().map(|it| it.as_str().expect("a text").to_owned()).collect()
}

#[track_caller]
fn yaml(path: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read(path)).expect("YAML");
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

#[track_caller]
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
