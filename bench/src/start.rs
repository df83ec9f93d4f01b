//! How long a command takes under a lock of this machine, beside `flock` and beside nothing.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use crate::table::{high, line, median};

/// Runs `true` in three ways, one after the other.
pub(crate) fn run(quick: bool) {
    let rounds = if quick { 50 } else { 500 };
    let folder = env::temp_dir().join(format!("quorate-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let (file, dir) = (folder.join("flock"), folder.join("locks"));
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let mut quorate = Command::new(binary());
        quorate.args(["run", "--quiet", "--local", "--dir"]).arg(&dir).args(["x", "true"]);
        let mut flock = Command::new("flock");
        flock.arg(&file).arg("true");
        for (took, command) in took.iter_mut().zip([Command::new("true"), flock, quorate]) {
            let time = time(command);
            // The first round makes the files.
            if round > 0 {
                took.push(time);
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    line("| | median, ms | 99 of 100 below, ms |");
    line("|---|---|---|");
    for (name, took) in ["`true`", "`flock FILE true`", "`quorate run x true`"].iter().zip(&took) {
        line(&format!("| {name} | {:.2} | {:.2} |", median(took), high(took)));
    }
    let size = std::fs::metadata(binary()).map_or(0, |metadata| metadata.len());
    line(&format!("\nThe binary has {:.1} MB.", size as f64 / 1e6));
}

/// In milliseconds.
fn time(mut command: Command) -> f64 {
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).status().expect("it can be run");
    assert!(status.success(), "{status}");
    started.elapsed().as_secs_f64() * 1e3
}

/// Built beside this one.
fn binary() -> PathBuf {
    let own = env::current_exe().expect("this program has a path");
    own.with_file_name("quorate")
}
