//! All permits of a name are one thing.

use serde_json::Value;

use crate::fixture::Fixture;

#[test]
fn permits_are_shown_as_one_row() {
    for fixture in Fixture::of_each_kind() {
        let hold = |file| fixture.hold_with(["--permits", "2", "dl"], file);
        let first_line = || fixture.exec(["show", "dl"]).out().lines().next().map(str::to_owned);
        assert_eq!(first_line().as_deref(), Some("dl: free"));
        let one = hold("one");
        assert_eq!(first_line().as_deref(), Some("dl: 1 permit taken"));
        let two = hold("two");
        assert_eq!(first_line().as_deref(), Some("dl: 2 permits taken"));
        let waiting = fixture.start(["--permits", "2", "dl", "true"]);
        let expected = Some("dl: 2 of 2 permits taken, 1 waiting");
        fixture.await_that_or(
            || format!("{:?}", first_line()),
            || first_line().as_deref() == expected,
        );
        let shown = fixture.exec(["show", "dl"]).assert_code(0);
        for number in [1, 2] {
            let held = format!("\npermit {number}: held by quorate/");
            assert_eq!(shown.out().matches(&held).count(), 1, "{shown:?}");
        }
        let waiter = format!("/{} ", waiting.pid().as_raw_nonzero());
        let last = shown.out().lines().last().expect("a line");
        assert!(last.starts_with("  1. quorate/") && last.contains(&waiter), "{shown:?}");
        let listed = fixture.exec(["ls"]).assert_code(0);
        let rows: Vec<&str> = listed.out().lines().skip(1).collect();
        assert_eq!(rows.len(), 1, "{listed:?}");
        assert!(rows[0].starts_with("dl    2 of 2 permits taken "), "{listed:?}");
        assert!(rows[0].ends_with(" 1"), "{listed:?}");
        // The single locks can be listed too.
        let listed = fixture.exec(["ls", "dl#"]).assert_code(0);
        assert_eq!(listed.out().lines().count(), 4, "{listed:?}");
        let json = fixture.exec(["show", "dl", "-o", "json"]).assert_code(0);
        let json: Value = serde_json::from_str(json.out()).expect("JSON");
        let permits = &json["permits"];
        assert_eq!((&permits["taken"], &permits["total"]), (&2.into(), &2.into()), "{json}");
        assert_eq!(permits["waiting_total"], 1, "{json}");
        one.close().assert_code(0);
        two.close().assert_code(0);
        waiting.end().assert_code(0);
    }
}
