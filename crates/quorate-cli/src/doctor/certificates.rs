//! When certificates expire.

use std::time::{Duration, SystemTime};

use super::{
    check::{Check, Problem},
    observed::{Node, Observed},
};
use crate::time::shown;

pub(super) const CHECKS: &[Check] = &[Check { id: "tls", problems, fine }];

fn problems(observed: &Observed) -> Vec<Problem> {
    let of_servers = observed.nodes.iter().filter_map(|node: &Node| {
        let problem = problem("the server's certificate", node.facts.certificate_ends?, observed)?;
        Some(problem.of(node.name()))
    });
    let of_client = observed.client_certificate_ends;
    let of_client =
        of_client.and_then(|ends| problem("the certificate in tls_cert", ends, observed));
    of_servers.chain(of_client).collect()
}

fn problem(what: &str, ends: SystemTime, observed: &Observed) -> Option<Problem> {
    let remedy = "renew it";
    let Ok(left) = ends.duration_since(observed.now) else {
        return Some(Problem::error(format!("{what} has expired"), remedy));
    };
    let text = || format!("{what} expires in {}", days(left));
    match left {
        _ if left < ERROR_BEFORE => Some(Problem::error(text(), remedy)),
        _ if left < WARNING_BEFORE => Some(Problem::warning(text(), remedy)),
        _ => None,
    }
}

fn fine(observed: &Observed) -> Option<String> {
    let of_servers = observed.nodes.iter().filter_map(|node| node.facts.certificate_ends);
    let first = of_servers.chain(observed.client_certificate_ends).min()?;
    let left = first.duration_since(observed.now).unwrap_or_default();
    Some(format!("the first certificate expires in {}", days(left)))
}

fn days(left: Duration) -> String {
    match left.as_secs() / 86_400 {
        0 => shown(left),
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

const ERROR_BEFORE: Duration = Duration::from_secs(2 * 86_400);
const WARNING_BEFORE: Duration = Duration::from_secs(14 * 86_400);
