// Command millrace makes tool calls over the agent tool protocol, serves example
// tools, and shows both at work.
//
//	millrace demo                                   a whole session, with nothing else needed
//	millrace serve --state DIR --tool URL           makes calls that survive it
//	millrace check FILE                             looks at a configuration of serve
//	millrace chat                                   talks with the model of a runtime
//	millrace sessions                               lists its sessions
//	millrace mcp --api URL --token-file FILE        offers its tools to a client of MCP
//	millrace migrate SESSION --to URL               moves a conversation to another runtime
//	millrace inspect URL                            looks at a flow that runs
//	millrace log list|show|replay|key --state DIR   looks at what it keeps
//	millrace durable check|backup|restore LOG       looks after what durable flows keep
//	millrace history info|steps|check|export FILE   looks at the run of a flow in a file
//	millrace tool                                   the example tool servers
//	millrace run --tool URL [calls.jsonl | -]       makes the calls of a file
//	millrace conform tool|runtime                   tells whether a peer keeps to the protocol
//	millrace control CONFIG                         the runtime, for a conformance run
//
// Run a command with -h for its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// A command is a word after millrace on the command line.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, args []string) error
}

var commands = []command{
	{"control", "run the runtime for a conformance run", control},
	{"demo", "make calls, and move a conversation between two hosts, with nothing else needed", demo},
	{"run", "make the calls of a JSONL file and print each result", run},
	{"serve", "make calls that survive this process", serve},
	{"check", "look at a configuration of serve", check},
	{"chat", "talk with the model of a running serve", chat},
	{"sessions", "list the sessions of a running serve", listSessions},
	{"mcp", "offer the tools of serve to a client of MCP that starts this", mcpFront},
	{"migrate", "move a session to another runtime", migrate},
	{"inspect", "look at a flow that runs", inspectFlow},
	{"log", "look at what serve keeps", logs},
	{"durable", "check, verify, back up and restore what a durable flow keeps", durables},
	{"history", "look at the run of a flow in a file", histories},
	{"tool", "serve the example tools", tool},
	{"conform", "tell whether a tool server or a runtime keeps to the protocol", conformance},
}

// errFailed ends the program with status 1, and errNoAnswer with 3, after all messages have
// been printed.
var (
	errFailed   = errors.New("failed")
	errNoAnswer = errors.New("no answer")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := dispatch(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func dispatch(ctx context.Context, args []string) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		switch err := c.run(ctx, args[1:]); {
		case err == nil || errors.Is(err, flag.ErrHelp):
			return succeeded(c.name)
		case errors.Is(err, errUsage):
			return 2
		case errors.Is(err, errFailed):
			return 1
		case errors.Is(err, errNoAnswer):
			return 3
		default:
			fmt.Fprintf(stderr, "millrace %s: %v\n", c.name, err)
			return 1
		}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(stdout)
		return succeeded(args[0])
	}
	fmt.Fprintf(stderr, "millrace: there is no command %q\n\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: millrace COMMAND [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nmillrace COMMAND -h tells the flags.\n")
}

// errUsage ends the program with status 2; the flag package has printed why.
var errUsage = errors.New("usage")

// parse parses the flags of a command.
func parse(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errUsage
}

// misused prints what is wrong with the arguments of a command.
func misused(fs *flag.FlagSet, format string, args ...any) error {
	fmt.Fprintf(fs.Output(), "millrace %s: %s\n\n", strings.TrimPrefix(fs.Name(), "millrace "), fmt.Sprintf(format, args...))
	fs.Usage()
	return errUsage
}
