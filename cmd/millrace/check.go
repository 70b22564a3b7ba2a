package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/host"
)

const checkUsage = `usage: millrace check FILE

Reads a configuration of 'millrace serve --config FILE' and says what is wrong with it. Nothing is
made, started or connected to; the files and variables that it names are looked at. It ends with 1 if
something is wrong.

The file is a JSON object. A member stands for a flag of serve, where it is explained; all may be left out
but state and one of tools and mcp:

  {"state": "/var/lib/millrace", "memory_mib": 512, "timeout": "15m",
   "api":       {"listen": "127.0.0.1:7341", "hosts": ["agents.example"], "token_file": "/etc/millrace/token", "tokens": "/etc/millrace/tokens",
                 "tls": {"cert": "/etc/millrace/c.pem", "key": "/etc/millrace/k.pem"},
                 "url": "https://agents.example", "oidc": {"issuer": "https://id.example", "audience": "https://agents.example/mcp"}},
   "callbacks": {"listen": "0.0.0.0:7340", "public": "https://agents.example", "tls": {…}},
   "monitor":   {"listen": "127.0.0.1:9090", "backups": "/var/backups/millrace"},
   "tools": [
     {"url": "https://tools.example", "headers": {"Authorization": {"env": "TOOLS_TOKEN"}},
      "secret": {"file": "/etc/millrace/tools.whsec"}, "origins": ["https://files.example"]},
     {"command": "millrace tool --leash --port {port} clock"}],
   "mcp": {
     "files":  {"command": ["LOG=debug", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/files"], "pin": true, "idle": "10m"},
     "mail":   {"command": ["mail-mcp"], "per_user": true, "max_users": 8},
     "search": {"url": "https://mcp.example/mcp", "headers": {"Authorization": {"file": "/etc/millrace/search"}},
                "repeat": {"create_issue": "never"}},
     "issues": {"url": "https://issues.example/mcp",
                "client": {"id": "millrace", "issuer": "https://id.example", "secret": {"env": "ISSUES_SECRET"}}}},
   "models": [
     {"name": "big", "openai": "https://api.example/v1", "model": "m1", "key": {"file": "/etc/millrace/model.key"}, "fallback": ["local"]},
     {"name": "local", "openai": "http://127.0.0.1:8080/v1", "model": "m2", "context": "64KiB"}],
   "nats":  {"servers": ["nats://10.0.0.1:4222"], "replicas": 3, "credentials": "/etc/millrace/nats.creds"}}

The first of the models is that of sessions that name none; "model": {"openai", "name", "key", "context"} is a single one, and "script" is in
place of "openai" for one that is played. Others are keep_for, partitions, witness, migration_key, accept_other_keys, max_result, ask_status, allow_http,
allow_networks, allow_origins, and name, nkey, ca, cert, key, system, system_credentials and assume_durable of nats. A
secret is {"file": NAME} or {"env": NAME}, and never in the file itself; those of a program of mcp are its env, by the name
of the variable. Names of files are relative to the
working directory, as in flags.

`

// check is the command that checks a configuration.
func check(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), checkUsage) }
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return misused(fs, "which file?")
	}
	f, err := parseServe([]string{"--config", fs.Arg(0)})
	if err != nil {
		return err
	}
	if err := f.look(); err != nil {
		return fmt.Errorf("%s: %w", fs.Arg(0), err)
	}
	names := f.tools.names()
	for _, s := range f.servers.all {
		names = append(names, "'"+s.Name+"' of MCP")
	}
	fmt.Fprintf(stdout, "%s is a configuration with the tool servers %s\n", fs.Arg(0), strings.Join(names, ", "))
	return nil
}

// look checks what the flags name, as far as that is possible without changing anything.
func (f *serveFlags) look() error {
	if _, err := f.kept.opener(f.FlagSet); err != nil {
		return err
	}
	if *f.tokenFile != "" {
		if _, err := readToken(*f.tokenFile); err != nil {
			return err
		}
	} else if local, err := onLoopback(*f.address); err != nil || !local {
		return fmt.Errorf("the API at %s can be reached from other hosts, or is no address, and has no token_file", *f.address)
	}
	for _, address := range []string{*f.listen, *f.address, *f.watch} {
		if address == "" {
			continue
		}
		if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
			return fmt.Errorf("nothing can listen at %q: %w", address, err)
		}
	}
	opts, tools := host.Options{PublicURL: *f.public, Secrets: f.secrets}, f.tools
	tools.commands = slices.Clone(tools.commands) // the ports that they are given here are not those of a start
	if err := tools.set(&opts, ""); err != nil {
		return err
	}
	if err := host.Check(opts); err != nil {
		return err
	}
	if err := f.servers.settle(); err != nil {
		return err
	}
	if _, err := f.openUsers(); err != nil {
		return err
	}
	_, err := f.models.open()
	return err
}

// names returns the names of the tool servers for messages.
func (t *toolFlags) names() []string {
	names := slices.Clone([]string(t.tools))
	for _, c := range t.commands {
		names = append(names, "'"+c.args[0]+"'")
	}
	return names
}
