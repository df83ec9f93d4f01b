//! Five independent nodes: what fails, what goes on, and what the errors say.
//!
//! Run with: cargo run --example `many_masters`

use quorate::{
    Client,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With servers: Client::connect(["redis://10.0.0.1", … five of them]).await?
    let nodes = MemoryNodes::new(5);
    let client = Client::builder().memory(&nodes).build()?;
    for failed in 0..=3 {
        match client.mutex("leader").try_lock().await {
            Ok(Some(guard)) => {
                println!("{failed} of 5 nodes fail: the lock is ours");
                guard.release().await?;
            }
            Ok(None) => println!("{failed} of 5 nodes fail: someone has it"),
            Err(LockError::NoQuorum { nodes, .. }) => {
                println!("{failed} of 5 nodes fail: no quorum");
                nodes.iter().for_each(|report| println!("  {report}"));
            }
            Err(other) => return Err(other.into()),
        }
        nodes.set(failed, if failed == 1 { Behaviour::Hang } else { Behaviour::Fail });
    }
    Ok(())
}
