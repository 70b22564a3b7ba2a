// Package historycmd implements a command that reads the history of a program's durable flow. The program itself
// provides the command, since only the program has the types in the history:
//
//	if len(os.Args) > 1 && os.Args[1] == "log" {
//		err := historycmd.Of("payments log", build, options).Run(ctx, os.Args[2:])
//		os.Exit(historycmd.ExitCode(err))
//	}
//
// It has these commands, none of which changes anything:
//
//	list               how much is stored of each partition
//	show               the steps that were committed, and what each gave
//	replay             what operators remember after a step
//	key TYPE KEY       what operators remembered of a key, after each step that changed it
//	diff               how state after one step differs from state after another
//	diff TYPE KEY      the same for one key
//	export FILE        the steps as a recording, which package sim can turn into a test
//	test FILE          the Go test
//
// A history in a folder cannot be opened while a process runs the flow on it. Package inspect shows the history
// of a running flow, and offers the same files for download.
package historycmd

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// A Command is the history command of a program.
type Command struct {
	// Name is the name of the command in its usage, such as "payments log".
	Name string
	// About, if not empty, describes the history in the usage.
	About string
	// Flags adds the flags that Open needs; nil if there are none.
	Flags func(*flag.FlagSet)
	// Open opens the history. It is called after the flags are parsed.
	Open func(ctx context.Context, fs *flag.FlagSet) (*durable.History, error)
	// Stdout and Stderr are those of the process if nil.
	Stdout, Stderr io.Writer
}

// Of returns the command for the flow that build builds, as [durable.Start] runs it with opts.
func Of[P any](name string, build func(*dataflow.Flow) P, opts durable.Options) *Command {
	return &Command{Name: name, Open: func(ctx context.Context, _ *flag.FlagSet) (*durable.History, error) {
		return durable.OpenHistory(ctx, build, opts)
	}}
}

// ErrUsage says that arguments are wrong. The message is already on Stderr.
var ErrUsage = errors.New("wrong arguments")

// ExitCode returns the exit code of a process: 0 without an error and for help, 2 for wrong arguments, else 1.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, ErrUsage):
		return 2
	}
	return 1
}

// A run is one execution of a command.
type run struct {
	*Command
	fs        *flag.FlagSet
	history   *durable.History
	out       *bufio.Writer
	partition int // -1 for all
	from, to  uint64
	most      int
	args      []string
}

// commands maps each command to its arguments besides flags and its function.
var commands = map[string]struct {
	args string
	do   func(*run, context.Context) error
}{
	"list":   {"", (*run).list},
	"show":   {"", (*run).show},
	"replay": {"", (*run).replay},
	"key":    {"TYPE KEY", (*run).key},
	"diff":   {"[TYPE KEY]", (*run).diff},
	"export": {"FILE", (*run).export},
	"test":   {"FILE", (*run).test},
}

// Run executes the command that args give. Wrong arguments are reported on Stderr and return [ErrUsage]; help
// returns [flag.ErrHelp]. Every other error is returned without being reported.
func (c *Command) Run(ctx context.Context, args []string) error {
	r := &run{Command: c, fs: flag.NewFlagSet(c.Name, flag.ContinueOnError)}
	stdout, stderr := io.Writer(os.Stdout), io.Writer(os.Stderr)
	if c.Stdout != nil {
		stdout = c.Stdout
	}
	if c.Stderr != nil {
		stderr = c.Stderr
	}
	r.out = bufio.NewWriter(stdout)
	r.fs.SetOutput(stderr)
	r.fs.Usage = r.usage
	if c.Flags != nil {
		c.Flags(r.fs)
	}
	r.fs.IntVar(&r.partition, "partition", -1, "`number` of the partition; 0 unless given, and for key all")
	r.fs.Uint64Var(&r.from, "from", 0, "`number` of the first step")
	r.fs.Uint64Var(&r.to, "to", 0, "`number` of the last step; 0 for the last one there is")
	r.fs.IntVar(&r.most, "most", 20, "how many entries of each operator are printed; -1 for all")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if err := r.fs.Parse(args); err != nil {
			return usageError(err)
		}
		return r.misused("list, show, replay, key, diff, export or test?")
	}
	command, ok := commands[args[0]]
	if !ok {
		return r.misused("%q is none of list, show, replay, key, diff, export and test", args[0])
	}
	// Arguments may come before flags and after them.
	rest := args[1:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		r.args, rest = append(r.args, rest[0]), rest[1:]
	}
	if err := r.fs.Parse(rest); err != nil {
		return usageError(err)
	}
	r.args = append(r.args, r.fs.Args()...)
	if want := len(strings.Fields(command.args)); len(r.args) != want && !(len(r.args) == 0 && strings.HasPrefix(command.args, "[")) {
		return r.misused("%s has %d arguments besides flags, want %d: %s", args[0], len(r.args), want, command.args)
	}
	var err error
	if r.history, err = c.Open(ctx, r.fs); err != nil {
		return err
	}
	defer r.history.Close()
	if n := r.history.Partitions(); r.partition < -1 || r.partition >= n {
		return fmt.Errorf("there is no partition %d, only %d of them", r.partition, n)
	}
	return errors.Join(command.do(r, ctx), r.out.Flush())
}

// usageError returns the error for flags that package flag could not parse and has reported.
func usageError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return ErrUsage
}

func (r *run) misused(format string, args ...any) error {
	fmt.Fprintf(r.fs.Output(), "%s: %s\n\n", r.Name, fmt.Sprintf(format, args...))
	r.usage()
	return ErrUsage
}

func (r *run) usage() {
	lead := "usage: "
	for _, c := range [...]string{"list", "show   [--partition N] [--from STEP] [--to STEP]", "replay [--partition N] [--to STEP] [--most N]",
		"key    TYPE KEY [--partition N] [--from STEP] [--to STEP]", "diff   [TYPE KEY] --from STEP [--to STEP] [--partition N] [--most N]", "export FILE [--partition N] [--to STEP]", "test   FILE [--partition N] [--to STEP]"} {
		fmt.Fprintf(r.fs.Output(), "%s%s %s\n", lead, r.Name, c)
		lead = "       "
	}
	about := r.About
	if about == "" {
		about = "Looks at the history of a durable flow."
	}
	fmt.Fprintf(r.fs.Output(), `
%s

  list    says what there is of each partition
  show    prints the steps that were committed, and what each gave
  replay  makes the steps again, up to one of them, compares what they give with what is kept,
          and prints what operators remembered then
  key     makes them again, and prints what operators remembered of a key after each step that
          changed it. The key is in JSON; TYPE is a type of keys, as the command says if there is
          no such
  diff    prints what operators remembered after step --to and not after step --from, with a plus,
          and what they did not remember then, with a minus: of everything, or of a key
  export  writes them to a new FILE, of which package sim makes a test
  test    writes that test, in Go, to a new FILE: its text says what the other is to be called

Nothing is changed, and where there is no history none is made. One in a folder can be looked at
while no process runs the flow. Steps before the latest snapshots are there only if they are kept:
durable.Options.KeepFor.

`, about)
	r.fs.PrintDefaults()
}
