package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/internal/supervise"
	"github.com/millrace/millrace/internal/freeport"
)

// A Command is a tool server that the runtime starts itself, on this machine. Apart from that it
// is a tool server as those of [Options].Toolsets, with secrets and headers by its URL.
//
// The program is started with the runtime, and [Start] waits until it hands out a manifest, for as
// long as [Timeouts].Discovery. It serves all sessions. When it ends it is started again, after
// 0.1, 0.5, 1 and 2 s and then up to 30 s, and without that pause, though not twice in a second, when
// something is sent to it or a session comes from another host. It is ended by [Runtime.Stop], last
// of all: its standard input is closed and its group of processes interrupted, with SIGINT, and
// killed five seconds later.
//
// A runtime that is killed leaves no tool server behind. On Linux the kernel kills the program with
// the runtime. What it has started itself, and the program on other systems, has to end when its
// standard input ends, as 'millrace tool --leash' does.
type Command struct {
	// URL is the base URL at which the program is to listen, such as http://127.0.0.1:8801.
	// Sessions, callback URLs and prompts refer to a tool server by it, so it has to stay, and a
	// runtime with a State needs it. Empty means a free port of 127.0.0.1, found when the runtime
	// starts.
	URL string
	// Args are the program, looked for in PATH unless it has a slash, and its arguments. No shell
	// is involved. In these and in Env, {url}, {host} and {port} stand for URL and its parts.
	Args []string
	// Env is the environment of the program, NAME=VALUE each. Nil means that of this process, with
	// whatever secrets that has.
	Env []string
	// Dir is the working directory of the program. Empty means that of this process.
	Dir string
	// Output is written what the program prints, as it is. Nil discards it, but for the last line,
	// which the error has when the program ends.
	Output io.Writer
}

// withCommands returns o with the commands as they are started, and their URLs and those of handlers of this
// process among the toolsets.
func (o Options) withCommands() (Options, error) {
	if len(o.Commands)+len(o.Local) == 0 {
		return o, nil
	}
	o.Toolsets, o.Commands = slices.Clone(o.Toolsets), slices.Clone(o.Commands)
	for _, base := range slices.Sorted(maps.Keys(o.Local)) {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || base != u.Scheme+"://"+strings.ToLower(u.Host) || u.Host == "" || o.Local[base] == nil {
			return o, fmt.Errorf("host: local tool server %s: it needs a handler, and a URL with a scheme and a host in lower case and no more", quote.URL(base))
		}
		o.Toolsets = append(o.Toolsets, base)
	}
	for i := range o.Commands {
		c := &o.Commands[i]
		if len(c.Args) == 0 {
			return o, fmt.Errorf("host: command %d has no program", i+1)
		}
		switch {
		case c.URL != "":
		case o.State != nil:
			return o, fmt.Errorf("host: command %s: it needs a URL that stays, because calls that are kept refer to its tool server by that", quote.Text(c.Args[0]))
		case !c.mentions("{port}") && !c.mentions("{url}"):
			return o, fmt.Errorf("host: command %s: it has no URL, and neither {port} nor {url} in its arguments, so it cannot be told where to listen", quote.Text(c.Args[0]))
		default:
			at, err := freeport.Address()
			if err != nil {
				return o, fmt.Errorf("host: command %s: %w", quote.Text(c.Args[0]), err)
			}
			c.URL = "http://" + at
		}
		if err := c.expand(); err != nil {
			return o, fmt.Errorf("host: command %s: %w", quote.Text(c.Args[0]), err)
		}
		o.Toolsets = append(o.Toolsets, c.URL)
	}
	return o, nil
}

func (c *Command) mentions(what string) bool {
	has := func(s string) bool { return strings.Contains(s, what) }
	return slices.ContainsFunc(c.Args, has) || slices.ContainsFunc(c.Env, has)
}

// expand puts the parts of the URL where they belong.
func (c *Command) expand() error {
	c.URL = strings.TrimSuffix(c.URL, "/")
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("its URL is not one")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	parts := strings.NewReplacer("{url}", c.URL, "{host}", u.Hostname(), "{port}", port)
	replace := func(list []string) (out []string) {
		for _, s := range list {
			out = append(out, parts.Replace(s))
		}
		return out
	}
	c.Args = replace(c.Args)
	if c.Env != nil {
		c.Env = append([]string{}, replace(c.Env)...)
	}
	return nil
}

// startCommands starts the tool servers that the runtime runs itself, and waits until each is up
// or is known not to be. That one cannot be started is an error; that it ended again is not, as it
// is started again, and is what discovery says then.
func (rt *Runtime) startCommands(ctx context.Context) error {
	for _, c := range rt.opts.Commands {
		i := slices.IndexFunc(rt.peers.All, func(s *peer.Server) bool { return s.Base == c.URL })
		s := rt.peers.All[i]
		p, err := supervise.Start(supervise.Command{Args: c.Args, Env: c.Env, Dir: c.Dir, Output: c.Output}, supervise.Options{
			Ready: func(ctx context.Context) error {
				_, err := rt.catalog.FetchManifest(ctx, s)
				return err
			},
			Ended: func(err error) {
				rt.log.Warn("tool server has ended, and is started again", "toolset", s.Base, "error", err)
			},
		})
		if err != nil {
			return fmt.Errorf("tool server %s: %w", s.Base, err)
		}
		s.Command = p
	}
	rt.peers.Raise(ctx)
	return nil
}
