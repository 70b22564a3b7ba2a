package main

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/agentproto/host"
)

// toolFlags are the flags about tool servers that serve and run share.
type toolFlags struct {
	tools     urls
	commands  commandFlags
	headers   headerFlags
	origins   urls
	networks  prefixes
	maxResult size
	plain     bool
	others    int // tool servers that other flags name
}

// add adds the flags to a flag set.
func (t *toolFlags) add(fs *flag.FlagSet) {
	fs.Var(&t.tools, "tool", "base `URL` of a tool server; may be given more than once")
	fs.Var(&t.commands, "tool-command", "a tool server that this starts, keeps running and ends: `[URL] [NAME=VALUE ...] PROGRAM [ARGUMENT ...]`, with {port}, {host} and {url} in place of where it is to listen. Without a URL that is a free port of 127.0.0.1, the same at every start with a --state folder; may be given more than once")
	fs.Var(&t.headers, "tool-header", "`NAME=VALUE`, NAME=@FILE or NAME=@env:VARIABLE: a header, such as Authorization, of everything that is sent to the tool server, and to no other; with more than one --tool it is URL|NAME=VALUE; may be given more than once. Everybody on a machine can read the flags of a process: give secrets as @FILE")
	fs.Var(&t.origins, "allow-origin", "an `ORIGIN` such as https://files.example to which a tool server may have requests sent that is at another; URL=ORIGIN allows it to the tool server at that URL alone; may be given more than once")
	fs.Var(&t.networks, "allow-network", "a `network` such as 10.0.0.0/8 that tool servers may be in, besides public ones and those given by address; may be given more than once")
	fs.BoolVar(&t.plain, "allow-http", false, "let requests that are not encrypted go to tool servers at public addresses, where others can read along")
	fs.Var(&t.maxResult, "max-result", "how many `bytes` a result of a tool may have, instead of 8MiB for one with images and 1MiB for any other: from 64KiB to 64MiB, and no more than the log can keep, which is somewhat less than 8MiB with serve")
}

// check returns an error if the flags are invalid. The error contains no value of a header.
func (t *toolFlags) check() error {
	if len(t.tools)+len(t.commands)+t.others == 0 {
		return fmt.Errorf("no tool server: give at least one --tool URL or --tool-command COMMAND")
	}
	_, err := t.headers.of(t.bases())
	return err
}

// bases returns the base URLs of all tool servers.
func (t *toolFlags) bases() []string { return slices.Concat(t.tools, t.commands.urls()) }

// set sets the options of a runtime from flags that were checked. State is the folder of its
// data, or empty.
func (t *toolFlags) set(o *host.Options, state string) (err error) {
	if err := t.commands.settle(state); err != nil {
		return err
	}
	o.Commands = t.commands.commands()
	o.Toolsets, o.AllowNetworks = t.tools, t.networks
	for _, text := range t.origins {
		i := strings.LastIndex(text, "=")
		if i < 0 {
			o.AllowOrigins = append(o.AllowOrigins, text)
			continue
		}
		if o.ToolsetOrigins == nil {
			o.ToolsetOrigins = map[string][]string{}
		}
		o.ToolsetOrigins[text[:i]] = append(o.ToolsetOrigins[text[:i]], text[i+1:])
	}
	o.Limits.Bytes, o.AllowPlainHTTP = int64(t.maxResult), t.plain
	o.Headers, err = t.headers.of(t.bases())
	return err
}

// headerFlags are the values of --tool-header. They are checked after all flags are known, and
// not in Set, because errors of the flag package repeat the value.
type headerFlags []string

// String returns "", to keep the values secret.
func (h *headerFlags) String() string { return "" }

// Set adds a header.
func (h *headerFlags) Set(text string) error { *h = append(*h, text); return nil }

// of returns the headers by base URL. Errors do not contain values.
func (h headerFlags) of(tools []string) (map[string]http.Header, error) {
	headers := map[string]http.Header{}
	for i, text := range h {
		base, rest, named := "", text, false
		if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
			if base, rest, named = strings.Cut(text, "|"); !named {
				return nil, fmt.Errorf("--tool-header number %d has a URL and no |: it has to be URL|NAME=VALUE", i+1)
			}
		}
		name, value, ok := strings.Cut(rest, "=")
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("--tool-header number %d is not NAME=VALUE or URL|NAME=VALUE", i+1)
		case !named && len(tools) != 1:
			return nil, fmt.Errorf("--tool-header %s: there are %d tool servers: say which one it is for, with URL|%[1]s=VALUE", strconv.Quote(name), len(tools))
		case !named:
			base = tools[0]
		}
		if place, ok := strings.CutPrefix(value, "@"); ok {
			var err error
			if value, err = secretAt(place); err != nil {
				return nil, fmt.Errorf("--tool-header %s: %w", strconv.Quote(name), err)
			}
		}
		base = strings.TrimSuffix(base, "/")
		if headers[base] == nil {
			headers[base] = http.Header{}
		}
		headers[base].Add(name, value)
	}
	return headers, nil
}

// A size is a flag for a number of bytes.
type size int64

// The smallest and the largest limit for a message.
const (
	leastSize = 64 << 10
	mostSize  = 64 << 20
)

// String returns the size in the format that Set takes.
func (s *size) String() string {
	switch {
	case *s != 0 && *s%(1<<20) == 0:
		return fmt.Sprint(*s>>20, "MiB")
	case *s != 0 && *s%(1<<10) == 0:
		return fmt.Sprint(*s>>10, "KiB")
	}
	return fmt.Sprint(int64(*s))
}

// Set takes a number of bytes, KiB or MiB, followed by its unit unless it is bytes.
func (s *size) Set(text string) error {
	n, err := bytesOf(text)
	if err != nil || n < leastSize || n > mostSize {
		return fmt.Errorf("it has to be a number of bytes from 64KiB to 64MiB")
	}
	*s = size(n)
	return nil
}

// bytesOf parses a number of bytes, KiB or MiB, followed by its unit unless it is bytes.
func bytesOf(text string) (int64, error) {
	number, unit := text, int64(1)
	if n, ok := strings.CutSuffix(text, "KiB"); ok {
		number, unit = n, 1<<10
	} else if n, ok := strings.CutSuffix(text, "MiB"); ok {
		number, unit = n, 1<<20
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of bytes", text)
	}
	return int64(n) * unit, nil
}
