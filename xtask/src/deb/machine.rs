//! A bare Debian system in a folder, on which a package is installed, started and removed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::debian;
use crate::output::say;
use crate::process::{first_line, read, run};
use crate::tools;

/// Checks the package on a new system in this folder, which is deleted if all is well.
pub(super) fn check(package: &Path, folder: &Path) -> Result<(), String> {
    debian::ensure_all(&[("mmdebstrap", "mmdebstrap"), ("systemd-nspawn", "systemd-container")])?;
    let machine = Machine::make(folder)?;
    fs::copy(package, machine.path(PACKAGE)).map_err(|error| error.to_string())?;
    let before = machine.files()?;
    run(machine.command("dpkg").args(["--install", PACKAGE]))?;
    machine.check_installed()?;
    run(machine.command("systemd-analyze").args(["verify", "--man=no", "quorate.service"]))?;
    // Removing keeps the settings, purging does not.
    run(machine.command("dpkg").args(["--remove", "quorate"]))?;
    expect(machine.path(SETTINGS).exists(), "removing has deleted the settings")?;
    expect(!machine.path("/usr/bin/quorate").exists(), "removing has kept the program")?;
    run(machine.command("dpkg").args(["--purge", "quorate"]))?;
    let left: Vec<_> = machine.files()?.difference(&before).cloned().collect();
    expect(left.is_empty(), &format!("purging has left {left:?}"))?;
    machine.boot()?;
    super::remove(folder)
}

struct Machine(PathBuf);

impl Machine {
    /// The essential packages of this system's release, and systemd.
    fn make(folder: &Path) -> Result<Self, String> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let suite = suite.ok_or("/etc/os-release has no VERSION_CODENAME")?;
        let image = tools::folder().join(format!("{suite}.tar"));
        if !image.exists() {
            download(suite, &image)?;
        }
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        run(Command::new("tar").arg("--extract").arg("--file").arg(image).arg("-C").arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    /// An absolute path of the system, as a path of ours.
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A program of the system.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.0).arg(program);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command
    }

    fn check_installed(&self) -> Result<(), String> {
        say(first_line(self.command("quorate").arg("--version"))?);
        run(self.command("quorate").args(["config", "--config", SETTINGS]))?;
        for file in INSTALLED {
            expect(self.path(file).exists(), &format!("the package has no {file}"))?;
        }
        Ok(())
    }

    /// All paths, but not what dpkg writes about packages, and nothing that ends with the system.
    fn files(&self) -> Result<BTreeSet<PathBuf>, String> {
        let (mut files, mut folders) = (BTreeSet::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            let failed = |error| format!("{}: {error}", folder.display());
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    folders.push(entry.path());
                }
                files.insert(entry.path());
            }
        }
        let dpkg = self.path("/var/lib/dpkg");
        let is_record =
            |path: &PathBuf| path.starts_with(&dpkg) && !path.starts_with(dpkg.join("info"));
        let others = [self.path("/run"), self.path("/var/log/dpkg.log")];
        files.retain(|path| !is_record(path) && !others.iter().any(|it| path.starts_with(it)));
        Ok(files)
    }

    /// Boots the system, which runs the check and powers off.
    fn boot(&self) -> Result<(), String> {
        let container = || {
            // A container outlives a systemd-nspawn that is killed, but not one that is terminated.
            let mut command = Command::new("timeout");
            command.args(["--kill-after=30s", BOOT_LIMIT, "systemd-nspawn"]);
            command.args(["--quiet", "--register=no", "--keep-unit", "--private-network"]);
            command.arg("--directory").arg(&self.0);
            command
        };
        if let Err(why) = first_line(container().arg("true")) {
            say(format!("the unit was not started: this machine cannot run containers ({why})"));
            return Ok(());
        }
        let wants = self.path("/etc/systemd/system/multi-user.target.wants");
        let written = fs::create_dir_all(&wants)
            .and_then(|()| fs::write(self.path("/etc/systemd/system/check.service"), UNIT))
            .and_then(|()| symlink("../check.service", wants.join("check.service")))
            .and_then(|()| fs::write(self.path(SCRIPT), CHECK))
            .and_then(|()| {
                fs::set_permissions(self.path(SCRIPT), fs::Permissions::from_mode(0o755))
            });
        written.map_err(|error| error.to_string())?;
        let booted = run(container().args(["--boot", "systemd.show_status=0"]));
        let outcome = fs::read_to_string(self.path(OUTCOME)).unwrap_or_default();
        say(&outcome);
        booted?;
        expect(outcome.contains("\nall is well\n"), "the unit does not do what it should")?;
        let left = read(Command::new("find").arg(&self.0).args(["-name", "*quorate*"]))?;
        let left: Vec<_> = left.lines().filter(|path| !path.ends_with(PACKAGE)).collect();
        expect(left.is_empty(), &format!("the service has left {left:?}"))
    }
}

/// An archive of the system, made once.
fn download(suite: &str, image: &Path) -> Result<(), String> {
    fs::create_dir_all(tools::folder()).map_err(|error| error.to_string())?;
    // Another run may do the same at the same time.
    let incoming = image.with_extension(format!("{}.tar", process::id()));
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=essential", "--include=systemd,systemd-sysv"]);
    command.arg(suite).arg(&incoming);
    // From where this system gets its packages.
    run(command.args(SOURCES.iter().find(|file| Path::new(file).exists())))?;
    fs::rename(incoming, image).map_err(|error| error.to_string())
}

fn expect(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

const SOURCES: &[&str] = &[
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/sources.list.d/ubuntu.sources",
    "/etc/apt/sources.list",
];

const PACKAGE: &str = "/srv/quorate.deb";
const SETTINGS: &str = "/etc/quorate/config.toml";
const SCRIPT: &str = "/srv/check";
const OUTCOME: &str = "/srv/outcome";
const BOOT_LIMIT: &str = "120s";

const INSTALLED: &[&str] = &[
    "/usr/share/man/man1/quorate.1.gz",
    "/usr/share/man/man1/quorate-nodes-change.1.gz",
    "/usr/share/bash-completion/completions/quorate",
    "/usr/share/zsh/vendor-completions/_quorate",
    "/usr/share/fish/vendor_completions.d/quorate.fish",
    "/usr/share/doc/quorate/copyright",
    "/usr/share/doc/quorate/examples/nightly-backup.timer",
    "/usr/lib/systemd/system/quorate.service",
];

const UNIT: &str = "\
[Service]
Type=oneshot
ExecStart=/srv/check
";

/// What an administrator does, in the order in which they do it. The first failure ends it.
const CHECK: &str = r#"#!/bin/bash
exec >/srv/outcome 2>&1
trap 'systemctl poweroff' EXIT
set -eux
dpkg --install /srv/quorate.deb
test "$(systemctl is-enabled quorate)" = disabled
test "$(systemctl is-active quorate)" = inactive
quorate run --local demo -- quorate show --local demo
quorate token check >/etc/quorate/tokens.toml 2>/dev/null
systemctl enable --now quorate
health() {
    exec 3<>/dev/tcp/127.0.0.1/8420
    printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    head -1 <&3 | grep ' 200 '
}
health
pid() {
    systemctl show --property MainPID --value quorate
}
test "$(stat --format=%u "/proc/$(pid)")" != 0
systemctl reload quorate
health
: an upgrade restarts the service
before=$(pid)
dpkg --install /srv/quorate.deb
test "$(pid)" != "$before"
health
dpkg --purge quorate
test "$(systemctl is-active quorate)" != active
systemctl daemon-reload
test -z "$(systemctl list-unit-files --no-legend 'quorate*')"
set +x
echo all is well
"#;
