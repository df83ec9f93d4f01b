//! Tests of the sequential model of each primitive: one history that keeps a rule, and some that
//! break it.

use super::*;

#[test]
fn readers_exclude_writers_only() {
    let kept = [
        held("writer", How::Alone, Some(1), 0..10),
        held("one", How::Reader, None, 10..30),
        held("two", How::Reader, None, 15..40),
        held("three", How::Reader, None, 35..50),
        held("next", How::Alone, Some(2), 50..60),
    ];
    assert_eq!(judged(&kept), [""; 0]);

    let mut early = kept.clone();
    early[4].acquired_at = Moment(49);
    assert_eq!(judged(&early), ["exclusion: three and next"]);
    let mut late = kept.clone();
    late[0].ended_at = Some(Moment(16));
    assert_eq!(judged(&late), ["exclusion: writer and one", "exclusion: writer and two"]);
    let mut same = kept.to_vec();
    same.insert(1, held("same", How::Alone, Some(1), 5..8));
    assert_eq!(judged(&same), ["exclusion: writer and same", "fence: writer and same"]);
}

#[test]
fn downgraded_writer_admits_readers_and_no_writer() {
    let read_on = held("writer", How::Reader, None, 10..30);
    let together = held("reader", How::Reader, None, 12..20);
    let writer = held("writer", How::Alone, Some(1), 0..10);
    assert_eq!(judged(&[writer.clone(), read_on.clone(), together]), [""; 0]);
    let between = held("other", How::Alone, Some(2), 10..11);
    assert_eq!(judged(&[writer, read_on, between]), ["exclusion: writer and other"]);
}

#[test]
fn entries_of_one_identity_hold_the_lock_together_and_exclude_all_others() {
    let kept = [
        held("outer", entry("a"), Some(1), 0..30),
        held("inner", entry("a"), Some(1), 10..20),
        held("other process", entry("a"), Some(1), 25..40),
        held("other identity", entry("b"), Some(2), 40..50),
        held("reader", How::Reader, None, 50..60),
        held("alone", How::Alone, Some(3), 60..70),
    ];
    assert_eq!(judged(&kept), [""; 0]);
    for (intruder, fence) in [(entry("b"), Some(9)), (How::Alone, Some(9)), (How::Reader, None)] {
        let mut broken = kept[..3].to_vec();
        broken.push(held("intruder", intruder, fence, 39..45));
        assert_eq!(judged(&broken), ["exclusion: other process and intruder"]);
    }
    let mut broken = kept[..1].to_vec();
    broken.push(held("reader", How::Reader, None, 20..50));
    broken.push(held("late", entry("a"), Some(1), 40..60));
    assert_eq!(judged(&broken), ["exclusion: outer and reader", "exclusion: reader and late"]);
}

#[test]
fn fence_of_an_entry_is_no_smaller_than_that_of_one_that_it_joins() {
    let outer = held("outer", entry("a"), Some(5), 0..30);
    let equal = held("inner", entry("a"), Some(5), 10..20);
    let larger = held("inner", entry("a"), Some(6), 10..20);
    let smaller = held("inner", entry("a"), Some(4), 10..20);
    assert_eq!(judged(&[outer.clone(), equal]), [""; 0]);
    assert_eq!(judged(&[outer.clone(), larger]), [""; 0]);
    assert_eq!(judged(&[outer.clone(), smaller.clone()]), ["fence: outer and inner"]);
    let history: History = [outer.clone(), smaller.clone()].into_iter().collect();
    assert_eq!(history.violations(Until::Ended)[0].text, "the fence 4 joins 5");

    // It asked before the other held the lock, or until the other did so no longer.
    let mut before = smaller.clone();
    before.asked_at = Moment(0);
    let mut later = outer.clone();
    later.acquired_at = Moment(1);
    assert_eq!(judged(&[later, before]), [""; 0]);
    let mut over = outer.clone();
    over.ended_at = Some(Moment(10));
    let longer = held("longer", entry("a"), Some(3), 0..30);
    assert_eq!(judged(&[over, longer.clone(), smaller.clone()]), [""; 0]);
    // An entry that has expired by its own clock is not joined.
    let mut lost = outer;
    lost.valid_until = Some(Moment(10));
    let history: History = [lost, longer, smaller].into_iter().collect();
    assert_eq!(history.violations(Until::Believed), []);
}

#[test]
fn next_of_another_kind_has_a_larger_fence_than_every_entry() {
    let entries = || {
        vec![held("outer", entry("a"), Some(5), 0..30), held("inner", entry("a"), Some(7), 10..20)]
    };
    for next in [entry("b"), How::Alone] {
        for (fence, expected) in [(8, None), (7, Some("inner")), (6, Some("inner"))] {
            let mut claims = entries();
            claims.push(held("next", next.clone(), Some(fence), 30..40));
            let expected: Vec<String> =
                expected.iter().map(|it| format!("fence: {it} and next")).collect();
            assert_eq!(judged(&claims), expected, "{next:?} with {fence}");
        }
    }
    let mut again = entries();
    again.push(held("other", How::Alone, Some(8), 30..40));
    again.push(held("again", entry("a"), Some(7), 40..50));
    assert_eq!(judged(&again), ["fence: other and again"], "the identity has no fence forever");
}

#[test]
fn holders_of_permits_never_exceed_the_largest_size() {
    let kept = [
        permit("one", "jobs#1", 2, 1, 0..30),
        permit("two", "jobs#2", 2, 1, 5..20),
        // It names a larger number, so there is one more permit while it holds.
        permit("three", "jobs#3", 3, 1, 10..40),
        permit("four", "jobs#2", 2, 2, 20..35),
        permit("five", "jobs#1", 2, 2, 30..50),
        // Another semaphore does not count.
        permit("elsewhere", "mails#1", 1, 1, 0..50),
    ];
    assert_eq!(judged(&kept), [""; 0]);
    let mut shrunk = kept.to_vec();
    shrunk.push(permit("six", "jobs#4", 2, 1, 25..28));
    assert_eq!(judged(&shrunk), ["permits: one and six"]);
    let history: History = shrunk.iter().cloned().collect();
    assert_eq!(history.violations(Until::Ended)[0].text, "4 permits of 3 are held");
    // No holder names three any more.
    shrunk[2].ended_at = Some(Moment(25));
    assert_eq!(judged(&shrunk), ["permits: one and six"]);
    // A larger number allows it.
    shrunk[6].how = How::Permit { semaphore: "jobs".to_owned(), of: 4 };
    shrunk[2].ended_at = Some(Moment(40));
    assert_eq!(judged(&shrunk), [""; 0]);
}

#[test]
fn each_permit_is_held_alone_and_has_fences_of_its_own() {
    let first = permit("one", "jobs#1", 3, 7, 0..20);
    let kept = [first.clone(), permit("two", "jobs#2", 3, 4, 20..30)];
    assert_eq!(judged(&kept), [""; 0]);
    let twice = [first.clone(), permit("two", "jobs#1", 2, 8, 10..30)];
    assert_eq!(judged(&twice), ["exclusion: one and two"]);
    let back = [first, permit("two", "jobs#1", 2, 6, 20..30)];
    assert_eq!(judged(&back), ["fence: one and two"]);
}

#[test]
fn members_of_a_set_begin_and_end_together() {
    let member = |lock: &str, fence, time| {
        let set = Some(Set { id: "1".to_owned(), size: 2 });
        Claim { set, ..claim("both", lock, Some(fence), time) }
    };
    let kept = [member("x", 1, 0..10), member("y", 5, 0..10)];
    assert_eq!(judged(&kept), [""; 0]);
    assert_eq!(judged(&kept[..1]), ["set: both and both"]);
    let history: History = kept[..1].iter().cloned().collect();
    assert_eq!(history.violations(Until::Ended)[0].text, "1 of 2 members of a set are held");
    for (wrong, count) in [(0..9, 1), (1..10, 1)] {
        let torn = [member("x", 1, 0..10), member("y", 5, wrong)];
        assert_eq!(judged(&torn), vec!["set: both and both"; count]);
    }
    let mut lost = kept;
    lost[1].valid_until = Some(Moment(9));
    let history: History = lost.into_iter().collect();
    assert_eq!(history.violations(Until::Believed).len(), 1, "one was lost before the other");
}

#[test]
fn each_member_of_a_set_excludes_others() {
    let member = |lock: &str| {
        let set = Some(Set { id: "1".to_owned(), size: 2 });
        Claim { set, ..claim("both", lock, Some(3), 0..10) }
    };
    let other = |fence, time| claim("other", "y", Some(fence), time);
    assert_eq!(judged(&[member("x"), member("y"), other(4, 10..20)]), [""; 0]);
    let overlap = [member("x"), member("y"), other(4, 9..20)];
    assert_eq!(judged(&overlap), ["exclusion: both and other"]);
    let back = [member("x"), member("y"), other(2, 10..20)];
    assert_eq!(judged(&back), ["fence: both and other"]);
}

#[test]
fn how_locks_are_held_can_be_read_again() {
    let recorder = Recorder::in_memory();
    recorder.ask_as("r", "x", How::Reader).kept(None, None).released();
    recorder.ask_as("e", "x", entry("invoice 7")).acquired(Some(1), None).released();
    let jobs = How::Permit { semaphore: "all jobs".to_owned(), of: 4 };
    let permits = recorder.ask_all("p", "all jobs", jobs.clone(), 2);
    let members = [("all jobs#1", Some(7)), ("all jobs#4", None)];
    let permits = permits.acquired_all(members, Some(Moment(5)));
    permits.extended(Moment(6));
    let _open = recorder.ask_all("s", "a, b", How::Alone, 2).acquired_all([("a", Some(1))], None);
    permits.lost();
    let history = recorder.history();

    let [reader, first, one, two, part] = history.claims() else { panic!("{history:?}") };
    assert_eq!((&reader.how, &reader.set), (&How::Reader, &None));
    assert_eq!(reader.asked_at, reader.acquired_at, "it was held before");
    assert_eq!((&first.how, first.fence), (&entry("invoice 7"), Some(1)));
    assert_eq!((&one.how, one.lock.as_str(), one.fence), (&jobs, "all jobs#1", Some(7)));
    assert_eq!((&two.how, two.lock.as_str(), two.fence), (&jobs, "all jobs#4", None));
    assert_eq!((one.valid_until, two.valid_until), (Some(Moment(6)), Some(Moment(6))));
    assert!(one.ended_at.is_some() && one.ended_at == two.ended_at);
    assert!(one.set.is_some() && one.set == two.set && one.set != part.set);
    assert_eq!((part.lock.as_str(), part.set.as_ref().map(|set| set.size)), ("a", Some(2)));
    assert_eq!(found(&history), ["set: s and s"], "a part of what was asked for");
}

#[test]
fn lines_about_how_a_lock_is_held_are_not_passed_over() {
    for wrong in [
        "1\t5\tasked\ta\tx\treader\n",
        "1\t5\tasked\ta\tx\tstanding\t-\n",
        "1\t5\tasked\ta\tx\tpermit jobs\t-\n",
        "1\t5\tasked\ta\tx\n1\t6\tacquired all\t-\ta\n",
        "1\t5\tasked\ta\tx\n1\t6\tacquired all\t-\n",
    ] {
        let last = wrong.lines().count();
        let panic = std::panic::catch_unwind(|| History::parse(wrong)).expect_err(wrong);
        let message = panic.downcast_ref::<String>().expect("a text");
        assert!(message.starts_with(&format!("line {last} is invalid")), "{message}");
    }
}

fn judged(claims: &[Claim]) -> Vec<String> {
    found(&claims.iter().cloned().collect())
}

fn entry(identity: &str) -> How {
    How::Entry(identity.to_owned())
}

fn held(client: &str, how: How, fence: Option<u64>, time: std::ops::Range<u64>) -> Claim {
    Claim { how, ..claim(client, "x", fence, time) }
}

fn permit(client: &str, lock: &str, of: u32, fence: u64, time: std::ops::Range<u64>) -> Claim {
    let semaphore = lock.split('#').next().expect("there is a name").to_owned();
    Claim { how: How::Permit { semaphore, of }, ..claim(client, lock, Some(fence), time) }
}
