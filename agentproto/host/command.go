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

// A Command is a tool server that the runtime itself starts on this machine. In all other respects it is like the tool servers of
// [Options].Toolsets: its URL is the key for its secrets and headers.
//
// [Start] starts the program and waits, for at most [Timeouts].Discovery, until it serves a manifest. The program serves all
// sessions. When it exits it is started again after 0.1, 0.5, 1 and 2 s and then up to 30 s. When something is sent to it or a
// session arrives from another host, it is started without that pause, but at most once a second. [Runtime.Stop] ends it last of
// all: it closes the program's standard input, interrupts its process group with SIGINT, and kills it five seconds later.
//
// A runtime that is killed leaves no tool server behind. On Linux the kernel kills the program together with the runtime.
// Processes that the program itself started, and on other systems the program too, have to exit when their standard input ends,
// as 'millrace tool --leash' does.
type Command struct {
	// URL is the base URL at which the program is to listen, such as http://127.0.0.1:8801. Sessions, callback URLs and prompts
	// refer to a tool server by its URL, so it must not change, and a runtime with a State needs one. Empty means a free port of
	// 127.0.0.1, chosen when the runtime starts.
	URL string
	// Args are the program and its arguments. The program is looked up in PATH unless it contains a slash. No shell is involved.
	// In Args and Env, {url}, {host} and {port} stand for URL and its parts.
	Args []string
	// Env is the environment of the program, each entry NAME=VALUE. Nil means the environment of this process, including any
	// secrets in it.
	Env []string
	// Dir is the working directory of the program. Empty means that of this process.
	Dir string
	// Output receives the output of the program unchanged. Nil discards it, except for the last line, which is part of the error
	// when the program exits.
	Output io.Writer
}

// withCommands returns o with expanded commands, and with the URLs of the commands and of the local handlers added to the
// toolsets.
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

// expand replaces the placeholders by the parts of the URL.
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

// startCommands starts the tool servers that the runtime runs itself, and waits until each is up or has failed. It is an error if
// one cannot be started. If one exits again, that is not an error: it is restarted, and discovery reports the failure.
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
