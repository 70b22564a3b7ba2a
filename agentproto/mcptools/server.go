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
	// Name consists of 1 to 32 letters, digits, _ and -. It names the toolset and, followed by _, is the prefix of its tools'
	// names. The names of two servers of a [Set] must differ in more than case.
	Name string
	// Prefix replaces Name and _ as the prefix of the tools' names. It may be empty.
	Prefix *string

	// Command is a program and its arguments. It is started without a shell, in its own process group, and speaks MCP on its
	// standard input and output.
	Command []string
	// Env is added to the environment of the program, which inherits only HOME, LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR and USER
	// from this process. Its values are not logged.
	Env map[string]string
	// Dir is the working directory of the program. Empty means a folder of its own below [Options.State], or the directory of
	// this process if there is no State.
	Dir string

	// PerUser starts a process of the program for each user, so that a program that remembers things for its user, such as what
	// they have chosen or opened, does not mix users. The user is that of the invocation or, if it names none, its root thread.
	// PerUser requires a Command and [Options.State]: each process has its own folder there, which is its working directory and,
	// unless Env sets another one, its HOME. The list of tools comes from one more process, which gets no calls. PerUser isolates
	// users from each other, but not from the program: all processes run as one user of the system.
	PerUser bool
	// MaxUsers is how many users may have a process at once. For a further user, the process that has been idle longest is ended;
	// if none is idle, the call gets an error result and is not sent. Zero means 32. MaxUsers requires PerUser.
	MaxUsers int
	// Idle is how long an unused program keeps running. A program is unused while no call, task or subscription is open and no
	// list of its tools is being read. After that time it is ended. The next call, or request for the manifest, starts it again.
	// This does not count towards [Bounds].Ends. Zero means forever or, with PerUser, 10 minutes; a negative value means forever.
	// Idle requires a Command.
	Idle time.Duration

	// URL is the address of a server that speaks Streamable HTTP.
	URL string
	// Header is sent with every request to the origin of URL, and to no other.
	Header map[string]toolserver.Secret
	// OAuth is for a server with a URL that requires tokens of users: see [OAuth]. Nil means that everything is discovered. An
	// Authorization in Header is sent instead of tokens.
	OAuth *OAuth

	// Tools are [path.Match] patterns for the server's own tool names. A tool that matches none of them is not offered. Nil means
	// all.
	Tools []string
	// Repeat says, by the server's own tool names, whether a call that was sent and whose answer was lost is sent again.
	Repeat map[string]Repeat
	// Pin refuses a tool whose description, schema or hints differ from those that it had when it was first seen. [Set.Problems]
	// reports it, with both digests. The first versions are stored in [Options.State], and are forgotten when the server is
	// opened without Pin, which is how to accept a change.
	Pin bool
	// Timeout is how long a call may take without progress. Zero means 10 minutes.
	Timeout time.Duration
}

// A Repeat says whether a call may be sent again if it is not known whether it was carried out, because the server or this
// process has ended meanwhile.
type Repeat string

// The values of Repeat. The zero value is IfSafe.
const (
	// IfSafe repeats a call of a tool that its server declares read-only or idempotent. This is decided when the call begins.
	IfSafe Repeat = "if-safe"
	// Never is for a tool whose server wrongly declares it safe to repeat.
	Never Repeat = "never"
	// Always is for a tool that is safe to repeat although its server does not declare it.
	Always Repeat = "always"
)

// Bounds limit what is accepted from one MCP server. A zero field means the default that its comment names.
type Bounds struct {
	Tools  int   // tools; 512
	Pages  int   // pages of the list of tools; 100
	Result int64 // bytes of one message on standard output, or of one event over HTTP; 8 MiB
	Image  int   // bytes of one image or other attachment in a result; 1 MiB
	Ends   int   // ends of a program within a minute before it is given up until requested anew; 5
}

// Options are the settings of a [Set]. Servers is required.
type Options struct {
	Servers []Server
	// State is a folder that contains one folder for each server: see [toolserver.Options.State]. Empty means memory.
	State string
	// AllowNetworks are networks that a URL may lead to in addition to public ones. A URL that names an IP address or localhost
	// is always allowed.
	AllowNetworks []netip.Prefix
	// RootCAs are the certificate authorities for servers with a URL, and for their authorization servers. Nil means the
	// system's.
	RootCAs *x509.CertPool
	// PublicURL is the address below which [Set.Pages] is served. Without it users cannot authorize access to protected servers.
	PublicURL string
	// Callbacks receives what the tools post to callback URLs, such as results. Nil means that these wait until
	// [Set.SetCallbacks] is called.
	Callbacks http.Handler
	// Start is how long [Open] waits for the tools of a server that is new to the State. Zero means 20 seconds. A server that is
	// not ready by then is added when it is.
	Start time.Duration
	// Version is the version of this program that MCP servers are told. Empty means "dev".
	Version string
	Bounds  Bounds
	// Logger receives events that concern an operator. Nil means [slog.Default].
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

// check returns an error if the configuration of a server is invalid. The error contains no values of Env and Header.
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

// check returns an error if the options are invalid.
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

// idle returns how long an unused program keeps running. Zero means forever.
func (s *Server) idle() time.Duration {
	if s.Idle == 0 && s.PerUser {
		return 10 * time.Minute
	}
	return max(0, s.Idle)
}

// maxConnected is how many users' links a server with a URL may have at once.
const maxConnected = 64

// maxUsers returns how many users' links there may be at once.
func (s *Server) maxUsers() int {
	switch {
	case !s.PerUser:
		return maxConnected
	case s.MaxUsers == 0:
		return 32
	}
	return s.MaxUsers
}

// Base returns the base URL of the toolset of a server, for a runtime in the same process. The host ends in .invalid, which no
// resolver knows, so it cannot be dialed.
func Base(name string) string { return "http://" + strings.ToLower(name) + ".mcp.invalid" } // _ is invalid in a host name, but nobody resolves this one
