//! What a newcomer meets: new servers, cron, waits, holders, addresses, permits and verdicts.

mod addresses;
mod cron;
mod holder;
mod new_servers;
mod permits;
mod verdict;
mod waiting;
