//! A process that is waited for, but not for ever: what a broken rule leaves behind may keep it, or
//! its output, open without end.

use std::{
    io::{Read, Write as _},
    process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    Ended, PATIENCE,
    leftovers::{Mark, is_within},
};

/// A process that was started here. It is killed with its test.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    out: Option<Listener>,
    err: Option<Listener>,
    /// The command line, for whoever reads why a test failed.
    line: String,
    mark: Option<Mark>,
}

impl Running {
    /// Starts it with pipes for all that it reads and writes.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_as_is(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// Starts it with the standard input and output that it was given.
    pub(crate) fn start_as_is(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it is started");
        let input = child.stdin.take();
        let out = child.stdout.take().map(Listener::start);
        let err = child.stderr.take().map(Listener::start);
        Self { child, input, out, err, line: format!("{command:?}"), mark: Mark::of(command) }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("a pid")).expect("a pid")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(text.as_bytes()).expect("it is read");
        input.flush().expect("it is read");
    }

    /// Waits for its end, without closing its standard input.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// Closes its standard input, and waits for its end.
    #[track_caller]
    pub(crate) fn close(mut self) -> Ended {
        self.input = None;
        self.end()
    }

    /// Waits for its end for so long.
    #[track_caller]
    pub(crate) fn end_within(mut self, bound: Duration) -> Ended {
        let mut status = None;
        if !is_within(bound, || {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        }) {
            self.fail(&format!("has not ended within {bound:?}"));
        }
        let status: ExitStatus = status.expect("it has ended");
        let has_all = |listener: &Option<Listener>| {
            listener.as_ref().is_none_or(|listener| listener.reader.is_finished())
        };
        let linger = LINGER.min(bound);
        if !is_within(linger, || has_all(&self.out) && has_all(&self.err)) {
            self.fail(&format!(
                "has ended ({status}), but others keep its output open for more than {linger:?}"
            ));
        }
        let heard = |listener: &Option<Listener>| listener.as_ref().map(Listener::heard);
        let (stdout, stderr) = (heard(&self.out), heard(&self.err));
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        Ended(Output { status, stdout, stderr })
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }

    /// Fails the test, which kills what is left.
    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let heard = |listener: &Option<Listener>| {
            let heard = listener.as_ref().map(Listener::heard).unwrap_or_default();
            String::from_utf8_lossy(&heard).into_owned()
        };
        let (out, err) = (heard(&self.out), heard(&self.err));
        let pid = self.pid();
        let listing = self.mark.as_ref().map(|mark| mark.listing().to_string());
        let listing = listing.unwrap_or_default();
        panic!(
            "process {pid} {what}\nit is: {}\nit wrote: {out:?}\nand to standard error: {err:?}\n\
             {listing}",
            self.line
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes in what is written to a pipe.
struct Listener {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Listener {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::default();
        let heard = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(len @ 1..) = pipe.read(&mut part) {
                lock(&heard).extend_from_slice(&part[..len]);
            }
        });
        Self { text, reader }
    }

    fn heard(&self) -> Vec<u8> {
        lock(&self.text).clone()
    }
}

fn lock(text: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the output of a process may stay open that has ended.
const LINGER: Duration = Duration::from_secs(5);
