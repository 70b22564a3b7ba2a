package mcptools

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A Server is an MCP server that an operator has configured. Exactly one of Command and URL is set.
type Server struct {
	// Name is of 1 to 32 letters, digits, _ and -. It names the toolset and, with a _ behind it, begins
	// the names of its tools. No two servers of a [Set] may have names that differ in case only.
	Name string
	// Prefix is what the names of tools begin with, in place of Name and _. It may be empty.
	Prefix *string

	// Command is a program and its arguments. It is started without a shell, in a group of
	// processes of its own, and speaks MCP on its standard input and output.
	Command []string
	// Env is added to the environment of the program, which has nothing of this process's but HOME,
	// LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR and USER. Its values are not logged.
	Env map[string]string
	// Dir is the working directory of the program. Empty means a folder of its own below
	// [Options.State], or the directory of this process if there is no State.
	Dir string

	// PerUser has a process of the program for each user, so that a program which keeps something for whoever uses it, such as what they have
	// chosen or opened, does not mix users. A user is that of the invocation or, if it names none, its root thread. It is for a Command, and
	// needs [Options.State]: each process has a folder of its own there, which is its working directory and, unless Env has another one,
	// its HOME. The list of tools is that of one more process, which gets no calls. It keeps users apart from each other, and not from the
	// program: all processes are of one user of the system.
	PerUser bool
	// MaxUsers is how many users may have a process at once. For one more, the process that was idle the longest is ended; if
	// none is idle, the call has an error result, and was not sent. Zero means 32. It is for PerUser.
	MaxUsers int
	// Idle is how long a program runs that nobody uses: while no call, task or subscription is open, and no list of its tools is
	// read. Then it is ended, and started again by the next call, or request for the manifest. That counts as none of [Bounds].Ends.
	// Zero means for ever or, with PerUser, 10 minutes; a negative one means for ever. It is for a Command.
	Idle time.Duration

	// URL is the address of a server that speaks Streamable HTTP.
	URL string
	// Header is sent with every request to the origin of URL, and to no other.
	Header map[string]toolserver.Secret
	// OAuth is for a server of a URL that wants tokens of users: see [OAuth]. Nil means that all is found out. A
	// Header Authorization is sent in place of tokens.
	OAuth *OAuth

	// Tools are patterns of [path.Match] for names as the server has them. A tool that matches none
	// is not offered. Nil means all.
	Tools []string
	// Repeat says for tools, by the names that the server has for them, what becomes of a call that was
	// sent and whose answer got lost.
	Repeat map[string]Repeat
	// Pin refuses a tool whose description, schema or hints are not those that it had when it was first seen, and
	// [Set.Problems] says so, with digests of both. What was seen is kept in [Options.State], and forgotten when the server is opened
	// without Pin: that is how a change is accepted.
	Pin bool
	// Timeout is how long a call may take without progress. Zero means 10 minutes.
	Timeout time.Duration
}

// A Repeat says whether a call may be sent again when it is not known whether it was carried out:
// because the server, or this process, has ended meanwhile.
type Repeat string

// The values of Repeat. The zero value is IfSafe.
const (
	// IfSafe repeats a call of a tool which its server calls read-only or idempotent. Whether it
	// does is decided when the call begins.
	IfSafe Repeat = "if-safe"
	// Never is for a tool of which the server says too much.
	Never Repeat = "never"
	// Always is for a tool of which the server says too little.
	Always Repeat = "always"
)

// Bounds are how much is taken from one MCP server. The zero value of each field is the default
// that its comment names.
type Bounds struct {
	Tools  int   // how many there may be; 512
	Pages  int   // of the list of tools; 100
	Result int64 // bytes of one message on standard output, or of one event over HTTP; 8 MiB
	Image  int   // bytes of one image or other attachment in a result; 1 MiB
	Ends   int   // so many ends of a program in a minute, and it is not started again before somebody asks; 5
}

// Options are the settings of a [Set]. Servers is needed.
type Options struct {
	Servers []Server
	// State is a folder, with one for each server in it: see [toolserver.Options.State]. Empty means
	// memory.
	State string
	// AllowNetworks are networks that a URL may lead to besides public ones. What a URL names
	// as an address, or as localhost, is allowed as it is.
	AllowNetworks []netip.Prefix
	// RootCAs are the certificate authorities of servers with a URL, and of those that authorize them. Nil means the system's.
	RootCAs *x509.CertPool
	// PublicURL is the address below which [Set.Pages] is served. Without it users cannot authorize access to protected
	// servers.
	PublicURL string
	// Callbacks takes what the tools post to callback URLs, such as results. Nil means that they wait
	// until [Set.SetCallbacks] is called.
	Callbacks http.Handler
	// Start is how long [Open] waits for the tools of a server that has not been asked
	// before. Zero means 20 seconds. A server that is not there by then is taken in when it is.
	Start time.Duration
	// Version is what MCP servers are told of this program. Empty means "dev".
	Version string
	Bounds  Bounds
	// Logger is for what an operator should know. Nil means [slog.Default].
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	def := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	b := &o.Bounds
	def(&b.Tools, 512)
	def(&b.Pages, 100)
	def(&b.Image, 1<<20)
	def(&b.Ends, 5)
	if b.Result == 0 {
		b.Result = 8 << 20
	}
	if o.Start == 0 {
		o.Start = 20 * time.Second
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

var (
	serverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	toolPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{0,32}$`)
)

// check returns what is wrong with the configuration of a server. It contains no values of Env and Header.
func (s *Server) check() error {
	switch {
	case !serverName.MatchString(s.Name):
		return fmt.Errorf("mcptools: %q is not a name of 1 to 32 letters, digits, _ and -", s.Name)
	case len(s.Command) == 0 && s.URL == "":
		return fmt.Errorf("mcptools: server %q has neither a command nor a URL", s.Name)
	case len(s.Command) > 0 && s.URL != "":
		return fmt.Errorf("mcptools: server %q has both a command and a URL", s.Name)
	case s.Prefix != nil && !toolPrefix.MatchString(*s.Prefix):
		return fmt.Errorf("mcptools: server %q: the prefix %q has other characters than letters, digits, _ and -, or more than 32", s.Name, *s.Prefix)
	case s.OAuth != nil && s.URL == "":
		return fmt.Errorf("mcptools: server %q: OAuth is for a URL", s.Name)
	case s.oauth().ClientID != "" && s.oauth().Issuer == "":
		return fmt.Errorf("mcptools: server %q: a ClientID needs the Issuer that knows it", s.Name)
	case s.Timeout < 0:
		return fmt.Errorf("mcptools: server %q: the timeout is negative", s.Name)
	case s.URL != "" && (s.PerUser || s.Idle != 0):
		return fmt.Errorf("mcptools: server %q: PerUser and Idle are for a command: a server with a URL has a connection for each user who has authorized access", s.Name)
	case s.PerUser && s.Dir != "":
		return fmt.Errorf("mcptools: server %q: there is no Dir with PerUser: the program of each user has a folder of its own", s.Name)
	case s.MaxUsers < 0 || s.MaxUsers > 0 && !s.PerUser:
		return fmt.Errorf("mcptools: server %q: MaxUsers is negative, or without PerUser", s.Name)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return fmt.Errorf("mcptools: server %q: its URL is not an absolute http or https URL without user and fragment", s.Name)
		}
	}
	for _, p := range s.Tools {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("mcptools: server %q: the pattern %q: %w", s.Name, p, err)
		}
	}
	for tool, r := range s.Repeat {
		if r != "" && r != IfSafe && r != Never && r != Always {
			return fmt.Errorf("mcptools: server %q: tool %q: repeat is %q, which is none of if-safe, never and always", s.Name, tool, r)
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("mcptools: server %q: %q is not the name of a variable", s.Name, name)
		}
	}
	return nil
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	if len(o.Servers) == 0 {
		return errors.New("mcptools: there are no servers")
	}
	if u, err := url.Parse(o.PublicURL); o.PublicURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(o.PublicURL, "?#")) {
		return errors.New("mcptools: PublicURL is not a plain http or https URL")
	}
	seen := make(map[string]bool)
	for i := range o.Servers {
		s := &o.Servers[i]
		if err := s.check(); err != nil {
			return err
		}
		if s.PerUser && o.State == "" {
			return fmt.Errorf("mcptools: server %q: PerUser needs a State, where the program of each user has its folder", s.Name)
		}
		if name := strings.ToLower(s.Name); seen[name] {
			return fmt.Errorf("mcptools: there are two servers %q", name)
		} else {
			seen[name] = true
		}
	}
	return nil
}

func (s *Server) prefix() string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name + "_"
}

func (s *Server) timeout() time.Duration {
	if s.Timeout == 0 {
		return 10 * time.Minute
	}
	return s.Timeout
}

// idle is how long its program runs that nobody uses. Zero is for ever.
func (s *Server) idle() time.Duration {
	if s.Idle == 0 && s.PerUser {
		return 10 * time.Minute
	}
	return max(0, s.Idle)
}

// maxConnected is how many links of users a server with a URL has at once.
const maxConnected = 64

// maxUsers is how many links of users there may be at once.
func (s *Server) maxUsers() int {
	switch {
	case !s.PerUser:
		return maxConnected
	case s.MaxUsers == 0:
		return 32
	}
	return s.MaxUsers
}

// Base returns the base URL of the toolset of a server, for a runtime that has it in its process. The name ends
// in .invalid, which no resolver knows: it cannot be dialled.
func Base(name string) string { return "http://" + strings.ToLower(name) + ".mcp.invalid" } // a _ is no character of a host name, but nobody resolves it
