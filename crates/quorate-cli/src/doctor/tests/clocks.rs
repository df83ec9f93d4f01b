//! Clocks of servers and of this machine.

use super::*;

#[test]
fn clock_of_this_machine_can_be_the_wrong_one() {
    let mut all = three(|_| {});
    for node in &mut all.nodes {
        node.facts.clock = readings(-7_000, 0);
    }
    let found = problems(&all);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (found[0].id, &found[0].node, found[0].level),
        ("clock-offset", &None, Level::Error)
    );
    assert!(found[0].text.contains("this machine is 7 s ahead of"), "{found:?}");
    assert_eq!((found[1].id, &found[1].node), ("clock-step", &None));
    assert!(found[1].text.contains("was set forward by 7 s"), "{found:?}");
}

#[test]
fn clock_that_was_set_is_found() {
    let moved = |seen: &str| {
        three(|node| {
            node.facts.record.insert("seen".into(), seen.into());
        })
    };
    one(&moved("994000"), "clock-step", Level::Error, "set forward by 6 s");
    one(&moved("998500"), "clock-step", Level::Warning, "set forward by 1.5 s");
    one(&moved("1006000"), "clock-step", Level::Error, "set back by 6 s");
    assert_eq!(problems(&moved("999500")), []);
}

#[test]
fn clock_with_a_wrong_rate_is_found() {
    let fast = |ppm| three(|node| node.facts.clock = readings(0, ppm));
    one(&fast(50_000), "clock-rate", Level::Error, "% too fast");
    one(&fast(-50_000), "clock-rate", Level::Error, "% too slow");
    one(&fast(8_000), "clock-rate", Level::Warning, "% too fast");
    assert_eq!(problems(&fast(2_000)), [], "the readings cannot tell");
    one(&fast(-1_000_000), "clock-rate", Level::Error, "stands still");
}
