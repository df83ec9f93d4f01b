//! A verb as a list of named steps: says what runs, how long it took, and where it stopped.

use std::time::Instant;

use crate::failure::Failure;
use crate::output::say;

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
        match result {
            Ok(()) => {
                say(format!("==> {name}: ok, {seconds:.1} s"));
                self.done += 1;
                Ok(())
            }
            Err(why) => {
                let verb = self.verb;
                let message = format!("{verb} failed at step `{name}` after {seconds:.1} s: {why}");
                Err(Failure::failed(message))
            }
        }
    }

    pub(crate) fn finish(self) {
        let Self { verb, started, done } = self;
        say(format!("==> {verb}: {done} steps passed, {:.1} s", started.elapsed().as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_verb_the_step_and_the_reason() {
        let mut steps = Steps::of("ci");
        steps.run("one", || Ok(())).unwrap();
        let failure = steps.run("two", || Err("it broke".to_owned())).unwrap_err();
        assert!(failure.message().starts_with("ci failed at step `two`"), "{failure:?}");
        assert!(failure.message().ends_with(": it broke"), "{failure:?}");
    }
}
