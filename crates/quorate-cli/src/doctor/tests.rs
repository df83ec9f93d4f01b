//! The checks on observations that are made up.

mod clocks;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use quorate::{
    diagnose::{Blocker, ClockReading, FolderFacts, RIGHTS, ServerFacts, SlowCall},
    error::{NodeAnswer, NodeError, QuarantineCause},
};

use crate::exit;

use super::{
    check::{Diagnosis, Finding, Level},
    observed::{Folder, Node, Observed, Settings},
    output::Report,
    style::Style,
};

const DAY: Duration = Duration::from_secs(86_400);

/// A node without faults.
fn node(number: u32) -> Node {
    let mut facts = ServerFacts::default();
    facts.node = format!("redis://n{number}:6379");
    let run = format!("{number:040x}");
    for (field, value) in [
        ("run_id", &*run),
        ("redis_version", "7.0.15"),
        ("role", "master"),
        ("connected_slaves", "0"),
        ("maxmemory", "1000"),
        ("maxmemory_human", "1000B"),
        ("maxmemory_policy", "noeviction"),
        ("used_memory", "100"),
        ("used_memory_human", "100B"),
        ("evicted_keys", "0"),
        ("aof_enabled", "0"),
        ("aof_last_write_status", "ok"),
        ("rdb_last_bgsave_status", "ok"),
    ] {
        facts.info.insert(field.into(), value.into());
    }
    for (field, value) in
        [("seen", "1000000"), ("seen_wall", "1000000"), ("change", "1"), ("quarantine_ms", "68200")]
    {
        facts.record.insert(field.into(), value.into());
    }
    facts.missing_rights = Some(Vec::new());
    facts.slow_calls = Some(Vec::new());
    facts.clock = readings(0, 0);
    Node { facts, answer: NodeAnswer::Attached }
}

/// Two readings, a second apart, of a clock that is ahead by this much and this much too fast.
fn readings(ahead_ms: i64, fast_ppm: i64) -> Vec<ClockReading> {
    let reading = |at_ms: u64| {
        let at = Duration::from_millis(at_ms);
        let wall_ms = 2_000_000 + at_ms;
        let fast_us = i64::try_from(at_ms).unwrap() * fast_ppm / 1_000;
        let server_us = (wall_ms * 1_000).strict_add_signed(ahead_ms * 1_000 + fast_us) + 100;
        ClockReading { asked: at, answered: at + Duration::from_micros(200), wall_ms, server_us }
    };
    vec![reading(0), reading(1_000)]
}

fn observed(nodes: Vec<Node>) -> Observed {
    let settings = Settings {
        nodes_from: "$QUORATE_NODES".into(),
        has_login: false,
        max_ttl: Duration::from_secs(60),
        prefix: "quorate:".into(),
        has_quarantine: nodes.len() >= 3,
        has_durable_nodes: false,
    };
    Observed {
        nodes,
        folder: None,
        client_certificate_ends: None,
        settings,
        now: SystemTime::UNIX_EPOCH + 10_000 * DAY,
    }
}

/// Three nodes, of which the second is changed.
fn three(change: impl FnOnce(&mut Node)) -> Observed {
    let mut nodes = vec![node(1), node(2), node(3)];
    change(&mut nodes[1]);
    observed(nodes)
}

fn set(node: &mut Node, field: &str, value: &str) {
    node.facts.info.insert(field.into(), value.into());
}

fn problems(observed: &Observed) -> Vec<Finding> {
    let findings = Diagnosis::of(observed).findings;
    findings.into_iter().filter(|finding| finding.level > Level::Ok).collect()
}

/// There is one finding: of this check and level, about the second node, with this text.
#[track_caller]
fn one(observed: &Observed, id: &str, level: Level, text: &str) {
    let found = problems(observed);
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!((finding.id, finding.level), (id, level), "{finding:?}");
    assert_eq!(finding.node.as_deref(), Some("redis://n2:6379"), "{finding:?}");
    assert!(finding.text.contains(text), "{finding:?}");
    assert!(!finding.remedy.as_ref().unwrap().is_empty());
}

#[test]
fn healthy_sets_have_no_findings() {
    assert_eq!(problems(&three(|_| {})), []);
    let mut one = observed(vec![node(1)]);
    set(&mut one.nodes[0], "aof_enabled", "1");
    for (name, value) in [("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")] {
        one.nodes[0].facts.settings.insert(name.into(), value.into());
    }
    assert_eq!(problems(&one), []);
}

#[test]
fn faults_of_a_server_are_found() {
    use Level::{Error, Warning};
    let with = |field: &str, value: &str| three(|node| set(node, field, value));
    one(&with("role", "slave"), "role", Error, "a replica of");
    one(&with("connected_slaves", "2"), "role", Warning, "replicas (2)");
    let run = format!("{:040x}", 1);
    let found = problems(&with("run_id", &run));
    assert_eq!((found[0].id, found[0].level), ("same-server", Error), "{found:?}");
    assert_eq!(found[0].node.as_deref(), Some("redis://n2:6379"), "{found:?}");
    assert!(found[0].text.contains("as redis://n1:6379"), "{found:?}");
    assert_eq!((found[1].id, found.len()), ("quorum", 2), "no client accepts it: {found:?}");
    one(&with("maxmemory_policy", "allkeys-lru"), "eviction", Error, "allkeys-lru");
    one(&with("evicted_keys", "3"), "eviction", Warning, "3 keys");
    let full = with("used_memory", "1000");
    let found = problems(&full);
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ["memory", "quorum"], "{found:?}");
    let verdict = "3 of 3 vote, 2 needed; 1 is full and grants no new locks: no further failure";
    assert!(found[1].text.starts_with(verdict), "{found:?}");
    one(&with("used_memory", "950"), "memory", Warning, "95 %");
    one(&with("aof_last_write_status", "err"), "persistence", Error, "append-only");
    one(&with("rdb_last_bgsave_status", "err"), "persistence", Error, "MISCONF");
    let unlimited = three(|node| {
        set(node, "maxmemory", "0");
        set(node, "maxmemory_policy", "volatile-lru");
    });
    one(&unlimited, "eviction", Warning, "volatile-lru");
    let aside = three(|node| {
        set(node, "used_memory", "1050");
        set(node, "mem_not_counted_for_evict", "500");
    });
    assert_eq!(problems(&aside), [], "buffers do not count");
}

#[test]
fn restart_that_loses_locks_is_found_without_quarantine() {
    let found = problems(&observed(vec![node(1)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].id, found[0].level), ("persistence", Level::Warning));
    let mut durable = three(|_| {});
    durable.settings.has_durable_nodes = true;
    let found = problems(&durable);
    assert!(found.iter().all(|it| it.id == "persistence" && it.level == Level::Error));
    assert_eq!(found.len(), 3);
}

#[test]
fn missing_rights_are_found() {
    let right = |rule: &&str| RIGHTS.iter().find(|it| it.rule == *rule).unwrap();
    let lacks = |rules: &[&str]| {
        three(|node| {
            node.facts.missing_rights = Some(rules.iter().map(right).collect());
        })
    };
    one(&lacks(&["+set", "+scan"]), "rights", Level::Error, "call set, scan");
    one(&lacks(&["+scan"]), "rights", Level::Warning, "call scan");
    assert_eq!(problems(&lacks(&["+config|get"])), [], "only durable nodes need it");
    let old = three(|node| node.facts.missing_rights = None);
    one(&old, "rights", Level::Warning, "older than Redis 7.0");
    let denied = || NodeError::NoPermission("NOPERM".into());
    let none = three(|node| node.facts.script_error = Some(denied()));
    one(&none, "rights", Level::Error, "NOPERM");
}

/// The texts of Redis 6.2 and 7.0.
#[test]
fn denials_have_the_rule_that_grants_the_right() {
    for (text, remedy) in [
        ("NOPERM No permissions to access a key", "ACL SETUSER app ~quorate:*;"),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "ACL SETUSER app ~quorate:*;",
        ),
        ("NOPERM No permissions to access a channel", "ACL SETUSER app &quorate:c:*"),
        ("NOPERM User app has no permissions to run the 'eval' command", "ACL SETUSER app +eval"),
        (
            "NOPERM this user has no permissions to run the 'info' command or its subcommand",
            "ACL SETUSER app +info",
        ),
    ] {
        let error = || NodeError::NoPermission(text.into());
        for change in [
            &|node: &mut Node| node.facts.script_error = Some(error()),
            &(|node: &mut Node| {
                node.facts.info.clear();
                node.facts.node_error = Some(error());
            }) as &dyn Fn(&mut Node),
        ] {
            let found = problems(&three(|node| {
                node.facts.user = "app".into();
                change(node);
            }));
            let [finding] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!((finding.id, finding.level), ("rights", Level::Error), "{found:?}");
            assert!(finding.remedy.as_ref().unwrap().starts_with(remedy), "{found:?}");
        }
    }
}

#[test]
fn outdated_list_is_found_with_the_agreed_one() {
    let changed = |change: &str, before: &str| {
        let mut all = three(|node| {
            node.facts.info.clear();
            node.facts.record.clear();
            node.answer = NodeAnswer::NodeError(NodeError::ConnectionRefused);
        });
        for node in [0, 2] {
            let record = &mut all.nodes[node].facts.record;
            for (field, value) in [
                ("origin", "a"),
                ("change", change),
                ("members", "1 redis://n4:6379\n2 redis://n3:6379\n3 redis://n1:6379\n"),
                ("before", before),
            ] {
                record.insert(field.into(), value.into());
            }
        }
        all
    };
    let found = problems(&changed("2", ""));
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ["membership", "quorum"]);
    assert_eq!(found[0].node.as_deref(), Some("redis://n2:6379"), "{found:?}");
    let list = "redis://n1:6379, redis://n3:6379, redis://n4:6379";
    let text = format!("it is not one of the agreed nodes (change 2): {list}");
    assert_eq!((&found[0].text, found[0].level), (&text, Level::Error));
    let list = list.replace(' ', "");
    let remedy = format!("update the list of nodes in $QUORATE_NODES: {list}");
    assert_eq!(found[0].remedy.as_ref(), Some(&remedy));
    // Without a change, it is another spelling of the address of a server that is down. While a
    // change is open, clients may have the list from before.
    for accepted in [changed("1", ""), changed("2", "2 redis://n2:6379\n")] {
        let found = problems(&accepted);
        assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ["reachable", "quorum"]);
    }
}

#[test]
fn slow_calls_of_the_last_hour_are_found() {
    let called = |took_ms, age_s| {
        three(|node| {
            let (took, age) = (Duration::from_millis(took_ms), Duration::from_secs(age_s));
            node.facts.slow_calls = Some(vec![SlowCall::new("KEYS", took, age)]);
        })
    };
    one(&called(70, 60), "slow-scripts", Level::Warning, "KEYS blocked the server for 70 ms");
    assert_eq!(problems(&called(49, 60)), []);
    assert_eq!(problems(&called(70, 3_600)), []);
}

#[test]
fn clocks_that_differ_are_found() {
    let ahead = |ms| {
        three(|node| {
            node.facts.clock = readings(ms, 0);
            node.facts.record.clear();
            node.facts.record.insert("change".into(), "1".into());
        })
    };
    assert_eq!(problems(&ahead(900)), []);
    one(&ahead(-1_500), "clock-offset", Level::Warning, "1.5 s behind");
    one(&ahead(60_000), "clock-offset", Level::Error, "1 min ahead of");
}

#[test]
fn expiring_certificates_are_found() {
    let now = SystemTime::UNIX_EPOCH + 10_000 * DAY;
    let ends = |at| three(|node| node.facts.certificate_ends = Some(at));
    one(&ends(now - DAY), "tls", Level::Error, "has expired");
    one(&ends(now + DAY), "tls", Level::Error, "expires in 1 day");
    one(&ends(now + 13 * DAY), "tls", Level::Warning, "expires in 13 days");
    assert_eq!(problems(&ends(now + 15 * DAY)), []);
    let mut client = three(|_| {});
    client.client_certificate_ends = Some(now);
    assert!(problems(&client)[0].text.starts_with("the certificate in tls_cert expires"));
}

/// The check of the error, and the quorum that is at its limit.
#[test]
fn every_error_of_a_node_is_a_finding() {
    for (error, id) in [
        (NodeError::ConnectionRefused, "reachable"),
        (NodeError::TimedOut, "reachable"),
        (NodeError::Server("ERR".into()), "reachable"),
        (NodeError::Auth("WRONGPASS".into()), "login"),
        (NodeError::Tls("expired".into()), "tls"),
        (NodeError::Busy, "slow-scripts"),
        (NodeError::Unsupported("a sentinel".into()), "server"),
        (NodeError::ReadOnly, "role"),
        (NodeError::Disagreement("other nodes".into()), "membership"),
        (
            NodeError::Quarantined {
                left: DAY,
                why: "it is new".into(),
                cause: QuarantineCause::New,
            },
            "quarantine",
        ),
        (NodeError::ClockStandsStill, "clock-rate"),
    ] {
        let found = problems(&three(|node| node.answer = NodeAnswer::NodeError(error.clone())));
        let ids: Vec<&str> = found.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, [id, "quorum"], "{error}: {found:?}");
        assert!(found.iter().all(|it| it.level == Level::Error), "{found:?}");
    }
}

#[test]
fn quorum_is_judged_by_what_may_fail_next() {
    let with = |count: u32, down: usize| {
        let mut nodes: Vec<Node> = (0..count).map(node).collect();
        for node in nodes.iter_mut().take(down) {
            node.answer = NodeAnswer::NodeError(NodeError::ConnectionRefused);
        }
        let found = problems(&observed(nodes));
        found.into_iter().find(|it| it.id == "quorum").map(|it| (it.level, it.text))
    };
    assert_eq!(with(5, 0), None);
    let of = |level, text: &str| Some((level, text.to_owned()));
    assert_eq!(with(5, 1), of(Level::Warning, "4 of 5 vote, 3 needed: 1 more may fail"));
    let limit = "3 of 5 vote, 3 needed: no further failure is tolerated";
    assert_eq!(with(5, 2), of(Level::Error, limit));
    assert_eq!(with(5, 3), of(Level::Error, "2 of 5 vote, 3 needed: no lock can be acquired"));
}

#[test]
fn even_numbers_of_nodes_and_long_ttls_are_found() {
    let found = problems(&observed((0..4).map(node).collect()));
    assert_eq!((found.len(), found[0].id, found[0].level), (1, "node-count", Level::Warning));
    let mut long = three(|_| {});
    long.settings.max_ttl = DAY;
    let found = problems(&long);
    assert_eq!((found.len(), found[0].id, found[0].level), (1, "max-ttl", Level::Warning));
}

/// Only if all servers are empty would `admit` let them vote.
#[test]
fn admit_is_suggested_only_where_it_works() {
    let quarantined = || NodeError::Quarantined {
        left: DAY,
        why: "it is new".into(),
        cause: QuarantineCause::New,
    };
    let remedies = |change: &dyn Fn(&mut ServerFacts)| {
        let mut all = three(|_| {});
        for node in &mut all.nodes {
            node.facts.record.clear();
            node.facts.keys = Some(0);
            node.answer = NodeAnswer::NodeError(quarantined());
        }
        change(&mut all.nodes[0].facts);
        let found = problems(&all).into_iter().filter(|it| it.id == "quarantine");
        found.filter_map(|it| it.remedy).collect::<Vec<_>>()
    };
    assert!(remedies(&|_| {}).iter().all(|it| it.contains("quorate nodes admit")));
    let wait = ["wait: it votes again by itself"; 3];
    assert_eq!(remedies(&|facts| facts.keys = Some(1)), wait);
    let doubt = |facts: &mut ServerFacts| {
        facts.record.insert("doubt".into(), "other-run".into());
    };
    assert_eq!(remedies(&doubt), wait);
    let one = three(|node| node.answer = NodeAnswer::NodeError(quarantined()));
    assert!(!format!("{:?}", problems(&one)).contains("admit"), "the others are in use");
}

#[test]
fn faults_of_a_folder_are_found() {
    let with = |change: &dyn Fn(&mut FolderFacts)| {
        let mut facts = FolderFacts::default();
        (facts.path, facts.exists) = (PathBuf::from("/locks"), true);
        facts.free_bytes = Some(1_000_000_000);
        change(&mut facts);
        let folder = Folder { facts, is_by_default: false, file_problem: None };
        problems(&Observed { folder: Some(folder), ..observed(Vec::new()) })
    };
    assert_eq!(with(&|_| {}), []);
    let found = with(&|facts| facts.problem = Some("it is on NFS: use a local disk".into()));
    assert_eq!((found[0].id, found[0].remedy.as_deref()), ("local-folder", Some("a local disk")));
    let found = with(&|facts| facts.free_bytes = Some(5_000_000));
    assert_eq!((found[0].id, found[0].level), ("local-disk", Level::Error));
    let found = with(&|facts| facts.free_files = Some(3));
    assert_eq!((found[0].id, found[0].level), ("local-disk", Level::Error));
    let found = with(&|facts| facts.blockers = vec![Blocker::new(811, "backup", true)]);
    assert_eq!((found[0].id, found[0].level), ("local-blocked", Level::Error));
    assert!(found[0].text.contains("process 811 (backup) is stopped"), "{found:?}");
}

#[test]
fn report_has_one_line_for_each_finding() {
    let observed = three(|node| node.answer = NodeAnswer::NodeError(NodeError::TimedOut));
    let diagnosis = Diagnosis::of(&observed);
    let report = Report { observed: &observed, diagnosis: &diagnosis };
    let text = report.text(Style::default());
    assert!(text.starts_with("●●|○  2 of 3 vote, 2 needed: no further failure"), "{text}");
    assert!(text.contains("\n  ○ redis://n2:6379  timed out, Redis 7.0.15, 0.20 ms\n"), "{text}");
    let line = "\n✗ reachable     redis://n2:6379: timed out -> check that";
    assert!(text.contains(line), "{text}");
    assert_eq!(text.matches("\n✓ ").count(), diagnosis.count(Level::Ok), "{text}");
    assert!(text.contains("\n2 errors, 0 warnings. "), "{text}");

    let ascii = report.text(Style { is_ascii: true, ..Style::default() });
    assert!(ascii.is_ascii() && ascii.starts_with("**|o  2 of 3"), "{ascii}");
    assert!(ascii.contains("\nok login") && ascii.contains("\nX  reachable"), "{ascii}");
    let colours = report.text(Style { has_colour: true, ..Style::default() });
    assert!(colours.contains("\x1b[31m✗\x1b[0m reachable"), "{colours}");

    let json = report.json();
    assert_eq!((&json["is_healthy"], &json["errors"]), (&false.into(), &2.into()));
    assert_eq!(json["quorum"]["may_fail"], 0);
    assert_eq!(json["nodes"][1]["node_error"], "timed out");
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), diagnosis.findings.len());
    let see = checks[0]["see"].as_str().unwrap();
    assert!(see.ends_with("docs/runbook.md#reachable"), "{see}");
}

#[test]
fn report_is_readable_in_a_narrow_terminal() {
    let observed = three(|node| node.answer = NodeAnswer::NodeError(NodeError::TimedOut));
    let diagnosis = Diagnosis::of(&observed);
    let report = Report { observed: &observed, diagnosis: &diagnosis };
    for columns in [40, 80] {
        let text = report.text(Style { columns: Some(columns), ..Style::default() });
        let addresses = |line: &&str| !line.contains("https://");
        for line in text.lines().filter(addresses) {
            assert!(line.chars().count() < columns, "{columns}: {line:?}");
        }
        let found = match columns {
            40 => {
                "\n✗ reachable\n  redis://n2:6379: timed out\n  -> check that the server runs and"
            }
            _ => "\n✗ reachable     redis://n2:6379: timed out\n                -> check that the",
        };
        assert!(text.contains(found), "{text}");
    }
}

/// The output refers to these sections.
#[test]
fn runbook_has_a_section_for_each_check_and_each_exit_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbook.md");
    let page = std::fs::read_to_string(page).unwrap();
    let has = |title: String| page.lines().any(|line| line == format!("### {title}"));
    for check in super::check::checks() {
        assert!(has(check.id.to_owned()), "{}", check.id);
    }
    let lists = [
        exit::EXIT_CODES,
        exit::EXIT_CODES_OF_ACQUIRE,
        exit::EXIT_CODES_OF_DOCTOR,
        exit::EXIT_CODES_OF_INSPECTION,
        exit::EXIT_CODES_OF_LEASES,
        exit::EXIT_CODES_OF_NODES,
        exit::EXIT_CODES_OF_SERVE,
        exit::EXIT_CODES_OF_TEXTS,
    ];
    let words = lists.iter().flat_map(|list| list.lines().skip(1));
    let codes = words.flat_map(|line| line.split("  ").take(2)).flat_map(|it| it.split(", "));
    let codes: Vec<u8> = codes.filter_map(|code| code.trim().parse().ok()).collect();
    assert!(codes.contains(&127) && codes.contains(&1), "{codes:?}");
    for code in codes.into_iter().filter(|code| *code != 0) {
        assert!(has(format!("Exit code {code}")), "{code}");
    }
}
