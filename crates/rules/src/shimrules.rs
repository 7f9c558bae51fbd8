//! The command line of `shimrules`, with the flags of Bickhart (2005), figure 2.6.

use crate::error::RuleError;
use crate::network::Network;
use crate::options::Options;
use crate::ports::Ports;
use crate::rule::{Chain, Policy, Rule};

/// What `shimrules -H` prints.
pub const USAGE: &str = "\
Usage: shimrules -[AD] -c <chain> -p <policy> <rule specification>
       shimrules -L [-c <chain>] [-p <policy>]
       shimrules -[FH]
       shimrules -G -c <chain>
       shimrules -S -c <chain> -p <policy>
Commands:
  -A  Add rule
  -D  Delete rule
  -L  List rules
  -F  Flush all rules
  -G  Get default policy
  -S  Set default policy
  -H  Show usage information (so does --help)
Chains: local, remote
Policies: enable, disable
Rule specifications:
  -h <address> [-s <port> | -r <port1>:<port2>]
  -n <address>/<netmask> [-s <port> | -r <port1>:<port2>]
  -s <port> [-h <address> | -n <address>/<netmask>]
  -r <port1>:<port2> [-h <address> | -n <address>/<netmask>]
  Each may be followed by -o <option>=<value>
Specification parameters:
  -h  Host IP address
  -n  Network address and netmask
  -s  Single port number
  -r  Range of port numbers
  -o  Option of an enable rule, such as class=interactive; repeat for more
Example:
  shimrules -A -c remote -p disable -n 192.0.2.0/24 -r 1:1024
  shimrules -L
";

/// What `shimrules` is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `-A`: add a rule behind the others of its list.
    Add(Rule),
    /// `-D`: delete the first rule that is the same.
    Delete(Rule),
    /// `-L`: list rules, of one chain or policy if given.
    List(Option<Chain>, Option<Policy>),
    /// `-F`: delete all rules.
    Flush,
    /// `-G`: print the default policy of a chain.
    GetDefault(Chain),
    /// `-S`: set the default policy of a chain.
    SetDefault(Chain, Policy),
    /// `-H`: print [`USAGE`].
    Help,
}

impl Command {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// When a flag is unknown, missing, or does not go with the command.
    pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<Self, RuleError> {
        let mut flags = Flags::default();
        let mut arguments = arguments.iter().map(AsRef::as_ref);
        while let Some(argument) = arguments.next() {
            flags.take(argument, &mut arguments)?;
        }
        flags.command()
    }
}

#[derive(Default)]
struct Flags {
    command: Option<char>,
    chain: Option<Chain>,
    policy: Option<Policy>,
    network: Option<Network>,
    ports: Option<Ports>,
    options: Options,
}

impl Flags {
    fn take<'a>(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), RuleError> {
        let mut value = || {
            rest.next().ok_or_else(|| RuleError::new(format!("{argument} needs a value: see -H")))
        };
        match argument {
            "-A" | "-D" | "-L" | "-F" | "-G" | "-S" | "-H" => {
                once(&mut self.command, argument, argument.chars().last().unwrap_or('H'))
            }
            "--help" => once(&mut self.command, argument, 'H'),
            "-c" => once(&mut self.chain, argument, value()?.parse()?),
            "-p" => once(&mut self.policy, argument, value()?.parse()?),
            "-h" => once(&mut self.network, argument, host(value()?)?),
            "-n" => once(&mut self.network, argument, network(value()?)?),
            "-s" => once(&mut self.ports, argument, single(value()?)?),
            "-r" => once(&mut self.ports, argument, value()?.parse()?),
            "-o" => self.options.set(value()?),
            _ => Err(RuleError::new(format!("unknown flag \"{argument}\": see -H"))),
        }
    }

    fn command(self) -> Result<Command, RuleError> {
        let Some(command) = self.command else {
            return Err(RuleError::new("no command: one of -A -D -L -F -G -S -H"));
        };
        let specified = self.network.is_some() || self.ports.is_some() || !self.options.is_empty();
        if !matches!(command, 'A' | 'D') && specified {
            return Err(RuleError::new(format!("-{command} takes no rule specification: see -H")));
        }
        match command {
            'A' => self.rule(command).map(Command::Add),
            'D' => self.rule(command).map(Command::Delete),
            'L' => Ok(Command::List(self.chain, self.policy)),
            'F' => Ok(Command::Flush),
            'G' => Ok(Command::GetDefault(self.need_chain(command)?)),
            'S' => Ok(Command::SetDefault(self.need_chain(command)?, self.need_policy(command)?)),
            _ => Ok(Command::Help),
        }
    }

    fn rule(&self, command: char) -> Result<Rule, RuleError> {
        let (chain, policy) = (self.need_chain(command)?, self.need_policy(command)?);
        if self.network.is_none() && self.ports.is_none() {
            return Err(RuleError::new(format!(
                "-{command} needs a rule specification: -h, -n, -s or -r"
            )));
        }
        let Self { network, ports, options, .. } = *self;
        let rule = Rule { network, ports, options, ..Rule::open(chain, policy) };
        rule.check().map(|()| rule)
    }

    fn need_chain(&self, command: char) -> Result<Chain, RuleError> {
        self.chain.ok_or_else(|| RuleError::new(format!("-{command} needs -c local|remote")))
    }

    fn need_policy(&self, command: char) -> Result<Policy, RuleError> {
        self.policy.ok_or_else(|| RuleError::new(format!("-{command} needs -p enable|disable")))
    }
}

fn once<T>(slot: &mut Option<T>, flag: &str, value: T) -> Result<(), RuleError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(RuleError::new(format!("{flag} does not go with a flag before it: see -H"))),
    }
}

fn host(value: &str) -> Result<Network, RuleError> {
    value.parse::<Network>().and_then(|network| match network.is_host() {
        true => Ok(network),
        false => Err(RuleError::new(format!("-h takes one address: write -n {value}"))),
    })
}

fn network(value: &str) -> Result<Network, RuleError> {
    match value.contains('/') {
        true => value.parse(),
        false => Err(RuleError::new(format!("-n takes ADDRESS/NETMASK: write -h {value}"))),
    }
}

fn single(value: &str) -> Result<Ports, RuleError> {
    value.parse::<Ports>().and_then(|ports| match ports.first() == ports.last() {
        true => Ok(ports),
        false => Err(RuleError::new(format!("-s takes one port: write -r {value}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, RuleError> {
        Command::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn the_lines_of_the_thesis_and_options_mean_what_they_say() {
        let add = "-A -c remote -p disable -n 10.1.2.0/255.255.255.0 -r 1:1024";
        let same = rule("remote disable net 10.1.2.0/24 ports 1-1024");
        assert_eq!(parse(add), Ok(Command::Add(same)));
        let delete = "-D -c local -p enable -s 80 -h 10.0.0.1";
        let same = rule("local enable host 10.0.0.1 port 80");
        assert_eq!(parse(delete), Ok(Command::Delete(same)));
        assert_eq!(parse("-L -c local"), Ok(Command::List(Some(Chain::Local), None)));
        assert_eq!(parse("-G -c remote"), Ok(Command::GetDefault(Chain::Remote)));
        let set = Command::SetDefault(Chain::Local, Policy::Enable);
        assert_eq!(parse("-S -c local -p enable"), Ok(set));
        let add = "-A -c remote -p enable -s 22 -o class=interactive -o weight=4";
        let same = rule("remote enable port 22 class=interactive weight=4");
        assert_eq!(parse(add), Ok(Command::Add(same)));
        assert_eq!(parse("-F"), Ok(Command::Flush));
        assert_eq!(parse("-H"), Ok(Command::Help));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for wrong in [
            "",
            "-A -D",
            "-A -c remote -p disable",
            "-A -c remote -s 80",
            "-A -p disable -s 80",
            "-A -c remote -p disable -h 10.0.0.0/8",
            "-A -c remote -p disable -n 10.0.0.1",
            "-A -c remote -p disable -s 1:5",
            "-A -c remote -p disable -s 80 -r 1:5",
            "-F -s 80",
            "-G",
            "-S -c local",
            "-L -x",
            "-A -c",
            "-A -c remote -p disable -s 80 -o weight=2",
            "-A -c remote -p enable -s 80 -o weight",
            "-A -c remote -p enable -o weight=2",
            "-L -o weight=2",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
