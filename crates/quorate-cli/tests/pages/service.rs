//! The requests of the page about the service: a real service accepts each of them, and a reply has
//! the keys that the page shows.

use serde_json::Value;

use crate::{
    page::fences,
    session::{BEGIN, END, SERVE, Session, Step, steps_of},
};

#[test]
fn requests_of_the_page_about_the_service_are_accepted() {
    let (mut requests, mut replies) = (0, 0);
    for fence in fences("docs/service.md").iter().filter(|it| it.text.starts_with("$ curl -X ")) {
        let text = fence.text.replace("\\\n", "");
        let steps = steps_of(&text);
        let scripts: String = steps.iter().map(script).collect();
        let script = format!("trap 'kill $(jobs -p)' EXIT\n{SERVE}\n{scripts}");
        let output = Session::new().run(&script);
        let output = String::from_utf8(output.stdout).expect("it is text");
        for (step, output) in steps.iter().zip(output.split(BEGIN).skip(1)) {
            let (reply, code) = output.rsplit_once(END).expect("each command ends");
            let place = format!("docs/service.md:{}: {}", fence.line, step.command);
            assert!(["200", "204"].contains(&code.trim()), "{place}: {output}");
            requests += 1;
            if !step.output.is_empty() {
                assert_eq!(keys(reply), keys(&step.output.join("")), "{place}");
                replies += 1;
            }
        }
    }
    assert!(requests > 8 && replies > 3, "the page has {requests} requests, {replies} replies");
}

/// A request for a lease is for one that was just acquired: the page does not show whole ids.
fn script(step: &Step<'_>) -> String {
    let (before, after) = step.command.split_once("/leases/").unwrap_or((step.command, ""));
    let command = match after.split_once('…') {
        None => step.command.to_owned(),
        Some((_, rest)) => format!("{ACQUIRE}\n{before}/leases/$lease{rest}"),
    };
    let command = command.replace("127.0.0.1:8420", "$service").replace('…', "");
    let command = command.replace("curl -X", "curl -s -w '\\n== end %{http_code}\\n' -X");
    format!("echo '{BEGIN}'\n{command}\n")
}

fn keys(reply: &str) -> Vec<String> {
    let reply: Value = serde_json::from_str(reply).expect("a reply is JSON");
    reply.as_object().expect("it is an object").keys().cloned().collect()
}

const ACQUIRE: &str = "\
lease=$(curl -s http://$service/v1/locks/a/acquire -d '{\"mode\": \"write\"}' | cut -d '\"' -f 4)";
