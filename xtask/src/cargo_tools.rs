//! Programs that cargo installs, with pinned versions, into the build folder.

use std::path::PathBuf;
use std::process::Command;

use crate::output::say;
use crate::process::{cargo, first_line, run};
use crate::tools;

/// Builds the book from `docs`.
pub(crate) const MDBOOK: CargoTool =
    CargoTool { package: "mdbook", version: "0.5.4", features: &["--features", "search"] };
/// Checks the dependencies.
pub(crate) const CARGO_DENY: CargoTool =
    CargoTool { package: "cargo-deny", version: "0.20.2", features: &[] };
/// Makes the Debian package.
pub(crate) const CARGO_DEB: CargoTool =
    CargoTool { package: "cargo-deb", version: "3.8.0", features: &[] };

/// A program that is a package of the registry.
pub(crate) struct CargoTool {
    package: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

impl CargoTool {
    /// The command that runs the program. Installs it unless the pinned version is there.
    pub(crate) fn ensure(&self) -> Result<Command, String> {
        if let Ok(version) = self.found() {
            say(version);
            return Ok(Command::new(self.program()));
        }
        let Self { package, version, features } = self;
        // Without optimisation: the build takes longer than all runs.
        let mut install = cargo("install --debug --locked --no-default-features".split(' '));
        install.args(*features).args(["--version", version, "--root"]);
        install.arg(tools::folder()).arg(package);
        run(&mut install)?;
        say(self.found().map_err(|why| format!("installed {package} {version}, but: {why}"))?);
        Ok(Command::new(self.program()))
    }

    fn program(&self) -> PathBuf {
        tools::folder().join("bin").join(self.package)
    }

    /// What the installed program prints as its version, if that is the pinned one.
    fn found(&self) -> Result<String, String> {
        let found = first_line(Command::new(self.program()).arg("--version"))?;
        let number = found.split(' ').next_back().unwrap_or_default().trim_start_matches('v');
        if number == self.version { Ok(found) } else { Err(format!("{found} is another version")) }
    }
}
