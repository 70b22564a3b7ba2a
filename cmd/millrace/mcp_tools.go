package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// mcpFlags are the MCP servers whose tools are offered.
type mcpFlags struct {
	all     []mcptools.Server
	headers []string
	repeat  []string
	pins    []string
	idle    []string
	perUser []string
	clients []string
	secrets []string
}

func (f *mcpFlags) add(fs *flag.FlagSet) {
	fs.Func("mcp", "an MCP server whose tools are offered: `[NAME=]COMMAND` or [NAME=]URL; the command as for --tool-command, with VARIABLE=VALUE, VARIABLE=@FILE or VARIABLE=@env:NAME before the program. What is in capitals is a variable, and not the name of the server; may be given more than once", f.set)
	fs.Func("mcp-header", "`SERVER=NAME=VALUE`, SERVER=NAME=@FILE or SERVER=NAME=@env:VARIABLE: a header of all requests to the MCP server of that name; may be given more than once. Give secrets as @FILE", func(text string) error {
		f.headers = append(f.headers, text)
		return nil
	})
	fs.Func("mcp-repeat", "`SERVER=TOOL=WHEN`: whether a call of that tool, by the name that the MCP server has for it, is sent again when its answer got lost: never, always or, as without this, if-safe; may be given more than once", func(text string) error {
		f.repeat = append(f.repeat, text)
		return nil
	})
	fs.Func("mcp-pin", "`SERVER`: a tool of the MCP server of that name is refused when its description, schema or hints are no longer those that it had when it was first seen. To accept a change, start once without this; may be given more than once", func(text string) error {
		f.pins = append(f.pins, text)
		return nil
	})
	fs.Func("mcp-idle", "`SERVER=DURATION`: the program of the MCP server of that name is stopped when nobody has used it for so long, such as 10m, and started again when somebody does; SERVER=never for the default, unless it is --mcp-per-user; may be given more than once", func(text string) error {
		f.idle = append(f.idle, text)
		return nil
	})
	fs.Func("mcp-per-user", "`SERVER` or SERVER=MOST: the program of the MCP server of that name is started for each user, in a folder of their own, for 32 users at once or MOST; it is stopped after 10 minutes unless --mcp-idle says otherwise. A user is the user_id of a call or, if it has none, its thread; may be given more than once", func(text string) error {
		f.perUser = append(f.perUser, text)
		return nil
	})
	fs.Func("mcp-client", "`SERVER=ID=ISSUER`: what the authorization server with the URL ISSUER knows this program by, for the MCP server of that name; without it, this program becomes a client there by itself. At the start it is said to which address users have to be sent back; may be given more than once", func(text string) error {
		f.clients = append(f.clients, text)
		return nil
	})
	fs.Func("mcp-client-secret", "`SERVER=FILE` or SERVER=env:NAME: the secret of the --mcp-client of that MCP server; may be given more than once", func(text string) error {
		f.secrets = append(f.secrets, text)
		return nil
	})
}

var (
	mcpName  = regexp.MustCompile(`^([A-Za-z0-9_-]{1,32})=(.+)$`)
	capitals = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`) // a variable of the program, and no name of a server
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// set adds one server.
func (f *mcpFlags) set(text string) error {
	s := mcptools.Server{}
	if m := mcpName.FindStringSubmatch(text); m != nil && !capitals.MatchString(m[1]) {
		s.Name, text = m[1], m[2]
	}
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		s.URL = text
		if s.Name == "" {
			return errors.New("a server with a URL needs a name: NAME=URL")
		}
	} else if err := commandOf(&s, text); err != nil {
		return err
	}
	f.all = append(f.all, s)
	return nil
}

// commandOf parses a command, with the variables before it.
func commandOf(s *mcptools.Server, text string) error {
	words, err := splitWords(text)
	if err != nil {
		return err
	}
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0], "=")
		if !ok || !variable.MatchString(name) {
			break
		}
		if value, err = valueOf(value); err != nil {
			return fmt.Errorf("the variable %s: %w", name, err)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
		words = words[1:]
	}
	if len(words) == 0 {
		return errors.New("there is no program")
	}
	if s.Command = words; s.Name == "" {
		s.Name = nameOfCommand(words)
	}
	return nil
}

// valueOf returns a value, or the content of the place that it names.
func valueOf(text string) (string, error) {
	if place, ok := strings.CutPrefix(text, "@"); ok {
		return secretAt(place)
	}
	return text, nil
}

// nameOfCommand returns a name for a server: that of its program or, if the program fetches others, that of what it fetches.
func nameOfCommand(words []string) string {
	name := filepath.Base(words[0])
	if name == "npx" || name == "uvx" || name == "bunx" || name == "node" || name == "python" || name == "python3" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") {
				name = path.Base(w)
				break
			}
		}
	}
	name, _, _ = strings.Cut(name, "@")
	for _, affix := range []string{"mcp-server-", "server-", "mcp-"} {
		name = strings.TrimPrefix(name, affix)
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".js"), ".py")
	name = regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "_")
	return name[:min(len(name), 32)]
}

// settle applies the other flags about the servers.
func (f *mcpFlags) settle() error {
	find := func(flag, text string) (*mcptools.Server, string, string, error) {
		parts := strings.SplitN(text, "=", 3)
		if len(parts) == 3 {
			for i := range f.all {
				if f.all[i].Name == parts[0] {
					return &f.all[i], parts[1], parts[2], nil
				}
			}
		}
		name, _, _ := strings.Cut(text, "=")
		return nil, "", "", fmt.Errorf("--%s %s=…: it begins with the name of no --mcp, or has not three parts", flag, name)
	}
	for _, text := range f.headers {
		s, name, value, err := find("mcp-header", text)
		if err == nil {
			value, err = valueOf(value)
		}
		if err != nil {
			return err
		}
		if s.Header == nil {
			s.Header = map[string]toolserver.Secret{}
		}
		s.Header[http.CanonicalHeaderKey(name)] = toolserver.NewSecret(value)
	}
	for _, text := range f.repeat {
		s, tool, when, err := find("mcp-repeat", text)
		if err != nil {
			return err
		}
		if s.Repeat == nil {
			s.Repeat = map[string]mcptools.Repeat{}
		}
		s.Repeat[tool] = mcptools.Repeat(when)
	}
	for _, name := range f.pins {
		i := slices.IndexFunc(f.all, func(s mcptools.Server) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("--mcp-pin %s: there is no --mcp of that name", name)
		}
		f.all[i].Pin = true
	}
	if err := f.settleLife(); err != nil {
		return err
	}
	for _, text := range f.clients {
		s, id, issuer, err := find("mcp-client", text)
		if err != nil {
			return err
		}
		s.OAuth = &mcptools.OAuth{ClientID: id, Issuer: issuer}
	}
	for _, text := range f.secrets {
		name, place, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(f.all, func(s mcptools.Server) bool { return s.Name == name && s.OAuth != nil })
		if i < 0 {
			return fmt.Errorf("--mcp-client-secret %s=…: it begins with the name of no --mcp-client", name)
		}
		secret, err := secretAt(place)
		if err != nil {
			return fmt.Errorf("--mcp-client-secret %s: %w", name, err)
		}
		f.all[i].OAuth.ClientSecret = toolserver.NewSecret(secret)
	}
	return nil
}

// settleLife applies the flags about the lifetime of programs.
func (f *mcpFlags) settleLife() error {
	find := func(flag, text string) (s *mcptools.Server, value string, err error) {
		name, value, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(f.all, func(s mcptools.Server) bool { return s.Name == name })
		if i < 0 {
			return nil, "", fmt.Errorf("--%s %s: there is no --mcp of that name", flag, name)
		}
		if f.all[i].URL != "" {
			return nil, "", fmt.Errorf("--%s %s: it is for a program, and that is a URL", flag, name)
		}
		return &f.all[i], value, nil
	}
	for _, text := range f.idle {
		s, value, err := find("mcp-idle", text)
		if err != nil {
			return err
		}
		if s.Idle, err = idleOf(value); err != nil {
			return fmt.Errorf("--mcp-idle %s: %w", s.Name, err)
		}
	}
	for _, text := range f.perUser {
		s, value, err := find("mcp-per-user", text)
		if err != nil {
			return err
		}
		s.PerUser = true
		if _, most := strings.CutPrefix(text, s.Name+"="); most {
			if s.MaxUsers, err = strconv.Atoi(value); err != nil || s.MaxUsers <= 0 {
				return fmt.Errorf("--mcp-per-user %s: how many users has to be a number from 1 on", s.Name)
			}
		}
	}
	return nil
}

// idleOf parses how long a program may be idle.
func idleOf(text string) (time.Duration, error) {
	if text == "never" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("it has to be a duration such as 10m, or never")
	}
	return d, nil
}

// mcpTools are the running MCP servers.
type mcpTools struct{ set *mcptools.Set }

// open starts the MCP servers. The runtime then offers their tools, and serves the pages to which users return who have
// authorized access to them. The runtime must already listen.
func (f *mcpFlags) open(ctx context.Context, o *host.Options, state string, networks []netip.Prefix, log *slog.Logger) (mcpTools, error) {
	if len(f.all) == 0 {
		return mcpTools{}, nil
	}
	if err := f.settle(); err != nil {
		return mcpTools{}, err
	}
	public := o.PublicURL
	if public == "" {
		public = "http://" + o.Listener.Addr().String()
	}
	set, err := mcptools.Open(ctx, mcptools.Options{Servers: f.all, State: filepath.Join(state, "mcp"), AllowNetworks: networks, PublicURL: public, Logger: log})
	if err != nil {
		return mcpTools{}, err
	}
	o.Local, o.Pages = set.Local(), set.Pages()
	for _, s := range f.all {
		if to := set.RedirectURI(s.Name); to != "" {
			fmt.Fprintf(stderr, "millrace serve: MCP server %q: its authorization server has to send users of the client back to %s\n", s.Name, to)
		}
	}
	return mcpTools{set}, nil
}

// note describes the state of the MCP server with a base URL, or returns "" if there is none.
func (m mcpTools) note(base string) string {
	if m.set != nil {
		for _, s := range m.set.Status() {
			if mcptools.Base(s.Name) == base {
				return s.String()
			}
		}
	}
	return ""
}

// serve connects the results of the tools to a runtime.
func (m mcpTools) serve(callbacks http.Handler) {
	if m.set == nil {
		return
	}
	for _, p := range m.set.Problems() {
		fmt.Fprintf(stderr, "millrace serve: %v\n", p)
	}
	m.set.SetCallbacks(callbacks)
	if err := m.set.Resume(); err != nil { // calls that an earlier process had accepted continue without waiting for a new one
		fmt.Fprintf(stderr, "millrace serve: MCP servers: %v\n", err)
	}
}

// mcpCloseTime limits how long running calls may take when the process ends. Those that are cut off continue with the next
// process, as far as they can.
const mcpCloseTime = 3 * time.Second

func (m mcpTools) close() {
	if m.set == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mcpCloseTime)
	defer cancel()
	if err := m.set.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintf(stderr, "millrace serve: MCP servers: %v\n", err)
	}
}
