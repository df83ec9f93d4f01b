//! A verb as a list of named steps: says what runs, how long it took, and where it stopped.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::failure::Failure;
use crate::output::{say, show};
use crate::process::{run_quietly, yielding};

/// A step that is a program: its name, and how to start it.
pub(crate) type Step = (String, Command);

/// Programs that start in this order, up to `width` at a time.
pub(crate) struct Lane {
    width: usize,
    steps: Vec<Step>,
}

impl Lane {
    /// For programs that mostly wait.
    pub(crate) fn of_waiting(steps: Vec<Step>) -> Self {
        Self { width: WAITING_AT_ONCE, steps }
    }

    /// For programs that only compute. They fill the time in which others wait, and give way.
    pub(crate) fn of_computing(steps: Vec<Step>) -> Self {
        let steps = steps.into_iter().map(|(name, command)| (name, yielding(&command)));
        Self { width: COMPUTING_AT_ONCE, steps: steps.collect() }
    }
}

/// The steps of one verb, so far.
pub(crate) struct Steps {
    verb: &'static str,
    started: Instant,
    done: usize,
}

impl Steps {
    pub(crate) fn of(verb: &'static str) -> Self {
        Self { verb, started: Instant::now(), done: 0 }
    }

    /// Runs one step. Its failure names the step, so that the last line of a log is enough.
    pub(crate) fn run(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), Failure> {
        say(format!("==> {name}"));
        let started = Instant::now();
        let result = work();
        let seconds = started.elapsed().as_secs_f64();
        result.map_err(|why| self.failure(name, seconds, &why))?;
        say(format!("==> {name}: ok, {seconds:.1} s"));
        self.done += 1;
        Ok(())
    }

    /// Runs the steps of several lanes at the same time. What a step prints is shown in one piece
    /// when it ends. A failure does not keep the other steps from running: one run shows all of
    /// them.
    pub(crate) fn run_lanes(
        &mut self,
        lanes: impl IntoIterator<Item = Lane>,
    ) -> Result<(), Failure> {
        let (done, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for Lane { width, steps } in lanes {
                let queue = Arc::new(Mutex::new(steps.into_iter()));
                for _ in 0..width {
                    let (queue, done, failures, this) = (queue.clone(), &done, &failures, &*self);
                    let next = move || queue.lock().expect("no thread panics with it").next();
                    scope.spawn(move || {
                        while let Some((name, command)) = next() {
                            match this.run_quietly(&name, command) {
                                Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                                Err(failure) => {
                                    failures
                                        .lock()
                                        .expect("no thread panics with it")
                                        .push(failure);
                                }
                            }
                        }
                    });
                }
            }
        });
        self.done += done.into_inner();
        let failures = failures.into_inner().expect("no thread panicked with it");
        let messages: Vec<_> = failures.iter().map(Failure::message).collect();
        if messages.is_empty() { Ok(()) } else { Err(Failure::failed(messages.join("\n"))) }
    }

    fn run_quietly(&self, name: &str, command: Command) -> Result<(), Failure> {
        say(format!("==> {name}"));
        let started = Instant::now();
        let (text, result) = run_quietly(command);
        let seconds = started.elapsed().as_secs_f64();
        let end = if result.is_ok() { "ok" } else { "failed" };
        show(&text, &format!("==> {name}: {end}, {seconds:.1} s"));
        result.map_err(|why| self.failure(name, seconds, &why))
    }

    fn failure(&self, name: &str, seconds: f64, why: &str) -> Failure {
        let verb = self.verb;
        Failure::failed(format!("{verb} failed at step `{name}` after {seconds:.1} s: {why}"))
    }

    pub(crate) fn finish(self) {
        let Self { verb, started, done } = self;
        say(format!("==> {verb}: {done} steps passed, {:.1} s", started.elapsed().as_secs_f64()));
    }
}

/// Few enough that each gets its share of two cores when it does not wait.
const WAITING_AT_ONCE: usize = 2;
/// It has a core while the others wait.
const COMPUTING_AT_ONCE: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_verb_the_step_and_the_reason() {
        let mut steps = Steps::of("ci");
        steps.run("one", || Ok(())).unwrap();
        let failure = steps.run("two", || Err("it broke".to_owned())).unwrap_err();
        assert!(failure.message().starts_with("ci failed at step `two`"), "{failure:?}");
        assert!(failure.message().ends_with(": it broke"), "{failure:?}");
    }

    #[test]
    fn lanes_run_at_the_same_time() {
        // Each waits for the other one.
        let pipe = std::env::temp_dir().join(format!("xtask-lanes-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let [reads, writes] = ["cat <\"$0\"", "echo >\"$0\""].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&pipe);
            vec![(script.to_owned(), command)]
        });
        let mut steps = Steps::of("ci");
        steps.run_lanes([Lane::of_waiting(reads), Lane::of_computing(writes)]).unwrap();
        assert_eq!(steps.done, 2);
        std::fs::remove_file(pipe).unwrap();
    }

    #[test]
    fn all_steps_of_a_lane_run_and_every_failure_is_reported() {
        let step = |name: &str| (name.to_owned(), Command::new(name));
        let mut steps = Steps::of("ci");
        let lane = Lane {
            width: 1,
            steps: vec![step("true"), step("false"), step("true"), step("false")],
        };
        let failure = steps.run_lanes([lane]).unwrap_err();
        let found = failure.message().matches("ci failed at step `false`").count();
        assert_eq!(found, 2, "{failure:?}");
        assert_eq!(steps.done, 2);
    }
}
