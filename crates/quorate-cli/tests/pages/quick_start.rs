//! The sessions of the quick start, run from the first to the last, with the output that the page
//! shows. `…` stands for any text in a line. A command without output on the page may write any.

use quorate_testkit::Server;

use crate::{
    page::fences,
    session::{BEGIN, END, SERVE, Session, Step, steps_of},
};

#[test]
fn sessions_of_the_quick_start_run_as_written() {
    let servers = Server::start_many(SERVERS.len());
    let addresses = SERVERS.iter().zip(&servers);
    let mut names: Vec<_> = addresses.map(|(name, it)| (*name, it.port().to_string())).collect();
    names.push((SERVICE, "$service".to_owned()));
    let page = fences("docs/quick-start.md");
    let sessions = page.iter().filter(|fence| fence.language == "console");
    let steps: Vec<Step<'_>> = sessions.flat_map(|fence| steps_of(&fence.text)).collect();
    assert!(steps.len() > 10, "the page has sessions");

    let mut script: String = steps.iter().map(script_of).collect();
    for (name, real) in &names {
        script = script.replace(name, real);
    }
    let output = Session::new().run(&format!("trap 'kill $(jobs -p)' EXIT\n{script}"));
    let mut output = String::from_utf8(output.stdout).expect("it is text");
    for (name, real) in &names {
        output = output.replace(real, name);
    }
    let outputs: Vec<&str> = output.split(BEGIN).skip(1).collect();
    assert_eq!(outputs.len(), steps.len(), "{output}");
    for (step, output) in steps.iter().zip(outputs) {
        let (output, code) = output.rsplit_once(END).expect("each command ends");
        assert_eq!(code.trim(), "0", "`{}` fails: {output}", step.command);
        assert!(expects(step, output.trim()), "`{}` writes {output}, not as shown", step.command);
    }
}

fn script_of(step: &Step<'_>) -> String {
    let command = match step.command {
        // The server of the test runs already.
        it if it.starts_with("redis-server ") => ":".to_owned(),
        "quorate serve &" => SERVE.to_owned(),
        it if it.ends_with('&') => format!("{it}\n{UNTIL_IT_IS_HELD}"),
        it if it.starts_with("kill ") => format!("{it}\n{UNTIL_IT_HAS_ENDED}"),
        it => it.to_owned(),
    };
    format!("echo; echo '{BEGIN}'\n{command}\ncode=$?; echo; echo '{END}' $code\n")
}

fn expects(step: &Step<'_>, output: &str) -> bool {
    step.output.is_empty() || fits(&step.output.join("\n"), output)
}

/// Whether the text is as on the page. It may go on after the last `…`.
fn fits(shown: &str, text: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|start| text.strip_prefix(start)) else {
        return false;
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.is_empty() || shown.ends_with('…')
}

#[test]
fn dots_stand_for_any_text() {
    assert!(fits("a", "a") && fits("a … c\nd", "a b c\nd") && fits("a: …", "a: b\nc"));
    assert!(!fits("a", "ab") && !fits("a … c", "a b") && !fits("b", "ab"));
}

/// The port on the page.
const SERVERS: [&str; 1] = ["6379"];
const SERVICE: &str = "127.0.0.1:8420";

const UNTIL_IT_IS_HELD: &str = "until quorate ls --local | grep -q demo; do :; done";

/// A server that ends removes the file with its process id. Until then it still answers.
const UNTIL_IT_HAS_ENDED: &str = "\
for _ in $(seq 1000); do [ -e demo-nodes/node-1/server.pid ] || break; sleep 0.01; done";
