//! The scripts on real servers.

use quorate::fence::{Fence, redis};
use quorate_testkit::{
    Flavour, Server,
    redis::{Cmd, Connection, RedisResult, Value, cmd, from_redis_value},
};

use super::lost_update::{
    Resource, large_and_small_fences, late_write_between_read_and_write, same_holder_again,
};

#[test]
fn late_write_is_refused_once_the_next_holder_has_read() {
    on_each(|server| late_write_between_read_and_write(&mut Price::on(server)));
}

#[test]
fn same_holder_may_write_again() {
    on_each(|server| same_holder_again(&mut Price::on(server)));
}

#[test]
fn neighbouring_fences_are_distinguished() {
    on_each(|server| large_and_small_fences(&mut Price::on(server)));
}

#[test]
fn fences_beyond_integers_of_databases_are_distinguished() {
    on_each(|server| {
        let mut price = Price::on(server);
        assert!(price.write(Fence::new(u64::MAX - 1), 1));
        assert!(price.write(Fence::new(u64::MAX), 2));
        assert!(!price.write(Fence::new(u64::MAX - 1), 3));
    });
}

#[test]
fn missing_value_is_read_as_none_and_the_read_counts() {
    on_each(|server| {
        let mut connection = server.connection();
        let answer: Value = eval(redis::READ, "7", None).query(&mut connection).unwrap();
        assert_eq!(answer, Value::Array(vec![Value::Int(1), Value::Nil]));
        let written: u8 = eval(redis::WRITE, "6", Some("1")).query(&mut connection).unwrap();
        assert_eq!((written, server.get(VALUE)), (0, None));
        let answer: Value = eval(redis::READ, "6", None).query(&mut connection).unwrap();
        assert_eq!(answer, Value::Array(vec![Value::Int(0)]));
    });
}

#[test]
fn value_stays_an_ordinary_key_and_its_fence_never_expires() {
    on_each(|server| {
        assert!(Price::on(server).write(Fence::new(7), 42));
        assert_eq!(server.get(VALUE), Some(b"42".into()));
        assert_eq!((server.pttl(VALUE), server.pttl(FENCE)), (-1, -1));
    });
}

#[test]
fn malformed_fence_is_an_error_and_changes_nothing() {
    on_each(|server| {
        let mut connection = server.connection();
        for wrong in ["", "-1", "1.5", "1e3", " 7", "seven", "100000000000000000000"] {
            for script in [redis::READ, redis::WRITE] {
                let asked: RedisResult<Value> =
                    eval(script, wrong, Some("1")).query(&mut connection);
                let error = asked.expect_err(wrong).to_string();
                assert!(error.contains("a fence is a number"), "{wrong}: {error}");
            }
        }
        assert!(server.keys().is_empty());
    });
}

fn on_each(test: impl Fn(&Server)) {
    for flavour in Flavour::ALL {
        test(&Server::builder().flavour(flavour).start());
    }
}

struct Price {
    connection: Connection,
}

impl Price {
    fn on(server: &Server) -> Self {
        Self { connection: server.connection() }
    }
}

impl Resource for Price {
    fn read(&mut self, fence: Fence) -> Option<i64> {
        let eval = eval(redis::READ, &fence.to_string(), None);
        let answer: Vec<Value> = eval.query(&mut self.connection).expect("an answer");
        match &answer[..] {
            [Value::Int(1), value] => Some(from_redis_value(value.clone()).expect("a number")),
            [Value::Int(0)] => None,
            other => panic!("{other:?} is no reply"),
        }
    }

    fn write(&mut self, fence: Fence, value: i64) -> bool {
        let eval = eval(redis::WRITE, &fence.to_string(), Some(&value.to_string()));
        match eval.query(&mut self.connection).expect("an answer") {
            Value::Int(1) => true,
            Value::Int(0) => false,
            other => panic!("{other:?} is no reply"),
        }
    }
}

fn eval(script: &str, fence: &str, value: Option<&str>) -> Cmd {
    let mut eval = cmd("EVAL");
    eval.arg(script).arg(2).arg(VALUE).arg(FENCE).arg(fence).arg(value);
    eval
}

const VALUE: &str = "{price}";
const FENCE: &str = "{price}:fence";
