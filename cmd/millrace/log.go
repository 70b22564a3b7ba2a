package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
)

const logUsage = `usage: millrace log list   --state DIR
       millrace log show   --state DIR [--partition N] [--from STEP] [--to STEP]
       millrace log replay --state DIR [--partition N] [--to STEP] [--most N]

Looks at what 'millrace serve' keeps: list says what there is of each partition, show
prints the steps that were committed and what each gave, and replay makes the steps again,
up to one of them, compares what they give with what is kept, and prints what the runtime
remembered then. Nothing is changed, and where there is no history none is made.

With --nats the history is that of a cluster. One in a folder can be looked at while no
process serves it. Steps before the latest snapshots
are there only if serve was started with --keep-for.

`

// A logView is what the flags of 'millrace log' say.
type logView struct {
	history   *durable.History
	partition int
	from, to  uint64
	most      int
	out       *bufio.Writer
}

func logs(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("log", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), logUsage); fs.PrintDefaults() }
	v := logView{out: bufio.NewWriter(stdout)}
	var kept historyFlags
	kept.add(fs, "`folder` given to 'millrace serve'")
	fs.IntVar(&v.partition, "partition", 0, "`number` of the partition")
	fs.Uint64Var(&v.from, "from", 0, "`number` of the first step")
	fs.Uint64Var(&v.to, "to", 0, "`number` of the last step; 0 for the last one there is")
	fs.IntVar(&v.most, "most", 20, "how many entries of each operator are printed; -1 for all")
	views := map[string]func(*logView, context.Context) error{"list": (*logView).list, "show": (*logView).show, "replay": (*logView).replay}
	if len(args) == 0 || views[args[0]] == nil {
		if len(args) > 0 && strings.HasPrefix(args[0], "-") {
			return parse(fs, args)
		}
		return misused(fs, "list, show or replay?")
	}
	if err := parse(fs, args[1:]); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return misused(fs, "what is %s?", strings.Join(fs.Args(), " "))
	}
	log, err := kept.opener(fs)
	if err != nil {
		return err
	}
	v.history, err = host.OpenHistory(ctx, durable.Options{
		Name: *kept.name, Log: log, Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}, conversation.Limits{})
	if err != nil {
		return err
	}
	if n := v.history.Partitions(); v.partition < 0 || v.partition >= n {
		return errors.Join(fmt.Errorf("there is no partition %d, only %d of them", v.partition, n), v.history.Close())
	}
	return errors.Join(views[args[0]](&v, ctx), v.out.Flush(), v.history.Close())
}

func (v *logView) list(ctx context.Context) error {
	fmt.Fprintf(v.out, "partition  messages     steps       bytes  last step  snapshot after\n")
	for p := range v.history.Partitions() {
		info, err := v.history.Partition(ctx, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(v.out, "%9d %9d %9d %11d %10d %15d\n", p, info.Records, info.Steps, info.Bytes, info.Last, info.Snapshot)
	}
	return nil
}

func (v *logView) show(ctx context.Context) error {
	for s, err := range v.history.Steps(ctx, v.partition) {
		switch {
		case err != nil:
			return err
		case s.Number < v.from:
			continue
		case v.to != 0 && s.Number > v.to:
			return nil
		}
		at := "-"
		if !s.At.IsZero() {
			at = s.At.UTC().Format(time.RFC3339Nano)
		}
		fmt.Fprintf(v.out, "step %d at %s: took up to message %d, refused %d\n", s.Number, at, s.Taken, s.Refused)
		if err := v.history.DescribeOutputs(indenter{v.out}, v.partition, s.Outputs); err != nil {
			return err
		}
	}
	return nil
}

func (v *logView) replay(ctx context.Context) error {
	return v.history.Replay(ctx, v.partition, v.to, v.out, v.most)
}

// An indenter indents the lines that are written to it. Each write is whole lines.
type indenter struct{ w io.Writer }

func (i indenter) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(i.w, "  %s", p)
	return len(p), err
}
