package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/exampletools"
)

const toolUsage = `usage: millrace tool [flags] [clock] [slow] [feed]

Serves the example tools until it is interrupted: all three servers, or those named.

  clock    echo, add, now, fail, thrice, strict
  slow     sleep, overdue, mute
  feed     tick, watch (open subscriptions), publish, progress (shows a view),
           delete (asks the user)

With --state DIR what a server has accepted survives it: each keeps its calls, results on
their way, subscriptions, and tokens, encrypted, in a folder of its own below DIR. Start it
again with the same --port, under which runtimes know it.

With --migration-key FILE sessions can move from a server to another one on this machine
that has the same key: give the same file to both. With --migrate-to URL, the --public of the
runtime here, they can move to a server on another host, through the runtimes of both.

With --secrets FILE only requests are taken that are signed with one of its secrets; so
are the messages to runtimes. Make a secret with: echo whsec_$(openssl rand -base64 32)

With RAP_EMBEDDED=1 in the environment and one server named, the first line of the
output is {"port":N}, as hosts of embedded tool servers expect.

`

var serverNames = []string{"clock", "slow", "feed"}

func tool(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("tool", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), toolUsage); fs.PrintDefaults() }
	host := fs.String("host", "127.0.0.1", "`address` to listen on")
	port := fs.Int("port", 8801, "`port` of the first server, the next ones follow; 0 for free ones")
	state := fs.String("state", "", "`folder` of everything that is to survive this process; without it nothing does")
	key := fs.String("migration-key", "", "`file` with the key of the servers between which sessions move; made if there is none")
	secrets := fs.String("secrets", "", "`file` with the whsec_ secrets, one to a line, that sign what passes between the servers and their runtimes")
	var destinations urls
	fs.Var(&destinations, "migrate-to", "an `ORIGIN` to which sessions may move besides servers on this machine: with a runtime on another host, that of the runtime here; may be given more than once")
	var networks prefixes
	fs.Var(&networks, "allow-network", "a `network` such as 10.0.0.0/8 that runtimes may be in, besides this machine and public ones; may be given more than once")
	leash := fs.Bool("leash", false, "end when standard input is closed")
	if err := parse(fs, args); err != nil {
		return err
	}
	names := fs.Args()
	if len(names) == 0 {
		names = serverNames
	}
	for _, name := range names {
		if !slices.Contains(serverNames, name) {
			return misused(fs, "there is no server %q", name)
		}
	}
	example, err := exampleOptions(*state, *key, *secrets, *host)
	if err != nil {
		return err
	}
	example.destinations, example.networks = destinations, networks
	if *leash {
		ctx = leashed(ctx)
	}
	embedded := os.Getenv("RAP_EMBEDDED") == "1" && len(names) == 1
	if embedded && *port == 8801 {
		*port = 0
	}
	failed := make(chan error, len(names))
	for i, name := range names {
		at := net.JoinHostPort(*host, fmt.Sprint(*port+i))
		if *port == 0 {
			at = net.JoinHostPort(*host, "0")
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			return fmt.Errorf("%w; choose another --port, or --port 0 for free ones", err)
		}
		handler, end, err := example.open(ctx, name, "http://"+l.Addr().String())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		defer end()
		local, err := onLoopback(at)
		if err != nil {
			return err
		}
		// The names by which others know this host are not known here.
		guarded := edge.Guard(edge.Policy{AnyHost: !local}, handler)
		server := edge.New(guarded, edge.Options{Body: -1}) // the server has its own limit, which is different for a session that moves here
		go func() { failed <- server.Serve(l) }()
		defer server.Close()
		if embedded {
			fmt.Fprintf(stdout, "{\"port\":%d}\n", l.Addr().(*net.TCPAddr).Port)
		} else {
			fmt.Fprintf(stdout, "%-8s http://%s\n", name, l.Addr())
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// An exampleConfig is the configuration that the servers of one process share.
type exampleConfig struct {
	state string            // a folder, or empty
	key   toolserver.Secret // of migrations
	moves bool              // whether key is set
	host  string

	secrets      []toolserver.Secret // shared with every runtime
	destinations []string            // of sessions, besides this machine
	networks     []netip.Prefix      // in which runtimes may be
}

func exampleOptions(state, keyFile, secretFile, host string) (c exampleConfig, err error) {
	c = exampleConfig{state: state, host: host}
	if secretFile != "" {
		list, err := secretsOf(secretFile)
		if err != nil {
			return c, err
		}
		for _, s := range list {
			c.secrets = append(c.secrets, toolserver.NewSecret(s))
		}
	}
	if keyFile == "" {
		return c, nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return c, fmt.Errorf("--migration-key is for servers on this machine alone, so --host cannot be %q: anybody else could move sessions", host)
	}
	key, err := keyOf(keyFile)
	c.key, c.moves = toolserver.NewSecret(string(key[:])), true
	return c, err
}

// knownRuntimes is the common name of the runtimes that have the secrets. With a common name,
// a session that moves between them keeps what was granted in it.
const knownRuntimes = "runtimes"

// of returns the options of one server.
func (c exampleConfig) of(name, url string) toolserver.Options {
	opts := toolserver.Options{PublicURL: url, AllowNetworks: c.networks, Status: true, Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if c.state != "" {
		opts.State = filepath.Join(c.state, name)
	}
	if c.secrets != nil {
		opts.Secrets = map[string][]toolserver.Secret{knownRuntimes: c.secrets}
		opts.Authenticate = toolserver.Signed(opts.Secrets)
	}
	if c.moves {
		opts.Migrator, opts.MigrationKey = toolserver.OwnState{}, c.key
		opts.MigrationDestinations = append([]string{"http://" + net.JoinHostPort(c.host, "*")}, c.destinations...)
	}
	return opts
}

// open starts and returns one of the servers. The start, which waits on a full disk, is given up when ctx ends.
func (c exampleConfig) open(ctx context.Context, name, url string) (_ http.Handler, end func(), err error) {
	opts := c.of(name, url)
	var s *toolserver.Server
	switch name {
	case "clock":
		s, err = exampletools.Clock(exampletools.ClockOptions{Server: opts})
	case "slow":
		s, err = exampletools.Slow(opts)
	case "feed":
		s, err = exampletools.Feed(opts)
	}
	if err == nil {
		started := context.AfterFunc(ctx, closing(s))
		err = s.Start()
		started()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the server %s: %w", name, err)
	}
	if name == "slow" {
		return exampletools.Mute(s), closing(s), nil
	}
	return s, closing(s), nil
}

// closing returns a function that closes a server.
func closing(s *toolserver.Server) func() {
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// Without --state, what does not end within a second is lost. That is acceptable for
		// an example.
		_ = s.Close(ctx)
	}
}
