//! A lock in a program without async.
//!
//! Run with: cargo run --example blocking

use std::{error::Error, thread};

use quorate::blocking::Client;

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::memory();
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let mutex = client.mutex("printer");
            thread::spawn(move || {
                mutex.with(|guard| {
                    println!("thread {number} prints, {:?} left", guard.remaining());
                })
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}
