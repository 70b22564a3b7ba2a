package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/history"
)

const recordingUsage = `usage: millrace history info  FILE
       millrace history steps FILE [--location NAME] [--from STEP] [--to STEP] [--most N]
       millrace history check FILE
       millrace history export FILE --state DIR [--partition N] [--to STEP]

Looks at the history of a run in a file (.mrh), which a flow with Options.Recorder or
package dataflow/recordings has written.

  info   says what the file is of: the locations and operators of the flow, how many steps and
         records there are, and how the run ended
  steps  prints the steps, and what each took, in the order of the file: those of a location
         are in order, and those of others come between them
  check  reads everything, and says whether the file is whole
  export writes the steps of a partition of what 'millrace serve' keeps to a new FILE, from the
         first one on: serve has to be started with --keep-for forever. A folder can be
         opened while no process serves it. Nothing in it is changed

The exit status is 1 if the file is damaged, and for check also if its end is cut off.
The file has what came in as it was: keep it as you keep the data.

`

// A recordingView holds the flags of 'millrace history'.
type recordingView struct {
	path     string
	location string
	from, to uint64
	most     int
	out      *bufio.Writer

	kept      historyFlags
	partition int
}

func histories(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("history", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), recordingUsage); fs.PrintDefaults() }
	v := recordingView{out: bufio.NewWriter(stdout)}
	fs.StringVar(&v.location, "location", "", "`name` of the location whose steps are printed; none for all")
	fs.Uint64Var(&v.from, "from", 0, "`number` of the first step that is printed")
	fs.Uint64Var(&v.to, "to", 0, "`number` of the last step that is printed or exported; 0 for the last one there is")
	fs.IntVar(&v.most, "most", 20, "how many `records` of each step are printed; -1 for all")
	v.kept.add(fs, "`folder` given to 'millrace serve', for export")
	fs.IntVar(&v.partition, "partition", 0, "`number` of the partition that is exported")
	views := map[string]func(*recordingView, *history.Reader) error{"info": (*recordingView).info, "steps": (*recordingView).steps, "check": (*recordingView).check}
	if len(args) == 0 || views[args[0]] == nil && args[0] != "export" {
		if len(args) > 0 && strings.HasPrefix(args[0], "-") {
			return parse(fs, args)
		}
		return misused(fs, "info, steps, check or export?")
	}
	rest := args[1:]
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") { // the file may come before flags
		v.path, rest = rest[0], rest[1:]
	}
	if err := parse(fs, rest); err != nil {
		return err
	}
	switch left := fs.Args(); {
	case v.path == "" && len(left) == 1:
		v.path = left[0]
	case v.path == "" && len(left) == 0:
		return misused(fs, "which FILE?")
	case len(left) > 0:
		return misused(fs, "what is %s?", strings.Join(left, " "))
	}
	if args[0] == "export" {
		return v.export(ctx, fs)
	}
	file, err := os.Open(v.path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := history.NewReader(file)
	if err == nil {
		err = views[args[0]](&v, r)
	}
	if errors.As(err, new(*history.Error)) {
		err = fmt.Errorf("%s: %w", v.path, err)
	}
	return errors.Join(err, v.out.Flush())
}

// ending prints how the file and the run end, after everything was read.
func (v *recordingView) ending(r *history.Reader) {
	switch e := r.End(); {
	case e == nil:
		fmt.Fprintf(v.out, "%s\n", r.Note())
	case e.Failed != "":
		fmt.Fprintf(v.out, "the flow failed: %s\n", e.Failed)
	case !e.Complete:
		fmt.Fprintf(v.out, "the flow went on when the history was closed\n")
	default:
		fmt.Fprintf(v.out, "the flow ended\n")
	}
}

func (v *recordingView) info(r *history.Reader) error {
	h := r.Header()
	steps := make([]uint64, len(h.Locations))
	records := make([]map[int32]uint64, len(h.Locations))
	if err := r.All(func(s *history.Step) error {
		steps[s.Location]++
		for _, t := range s.Takes {
			if records[s.Location] == nil {
				records[s.Location] = make(map[int32]uint64)
			}
			records[s.Location][t.Op] += uint64(t.N)
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Fprintf(v.out, "format %d, values in %s", h.Format, h.Codec)
	if h.Module != "" {
		fmt.Fprintf(v.out, ", written by version %s", h.Module)
	}
	if h.Revision != "" {
		fmt.Fprintf(v.out, " of a program at %s", h.Revision)
	}
	fmt.Fprintf(v.out, "\n%d steps\n", r.Steps())
	for i := range h.Locations {
		l := &h.Locations[i]
		fmt.Fprintf(v.out, "location %s: %d steps\n", l.Location, steps[i])
		for j := range l.Ops {
			op := &l.Ops[j]
			fmt.Fprintf(v.out, "%6d  %s", j, op)
			if n := records[i][int32(j)]; n > 0 || len(op.Takes) > 0 {
				fmt.Fprintf(v.out, ", took %d of %s", n, strings.Join(op.Takes, " and "))
			}
			fmt.Fprintln(v.out)
		}
	}
	v.ending(r)
	return nil
}

func (v *recordingView) steps(r *history.Reader) error {
	h, known := r.Header(), v.location == ""
	for i := range h.Locations {
		known = known || h.Locations[i].Location == v.location
	}
	if !known {
		return fmt.Errorf("%s has no location %q", v.path, v.location)
	}
	err := r.All(func(s *history.Step) error {
		if v.location != "" && h.Locations[s.Location].Location != v.location || s.Number < v.from || v.to != 0 && s.Number > v.to {
			return nil
		}
		return h.Describe(v.out, s, v.most)
	})
	if err == nil {
		v.ending(r)
	}
	return err
}

func (v *recordingView) check(r *history.Reader) error {
	if err := r.All(func(s *history.Step) error { return r.Header().Describe(io.Discard, s, -1) }); err != nil {
		return err
	}
	fmt.Fprintf(v.out, "%d steps\n", r.Steps())
	v.ending(r)
	if r.Note() != "" {
		return errFailed
	}
	return nil
}

// export writes a partition of a durable history to a new file. It removes the file if it could not
// be written completely.
func (v *recordingView) export(ctx context.Context, fs *flag.FlagSet) (err error) {
	log, err := v.kept.opener(fs)
	if err != nil {
		return err
	}
	h, err := host.OpenHistory(ctx, durable.Options{
		Name: *v.kept.name, Log: log, Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}, conversation.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	file, err := os.OpenFile(v.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(h.Export(ctx, file, v.partition, v.to), file.Sync(), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(v.path))
	}
	fmt.Fprintf(stdout, "exported partition %d to %s\n", v.partition, v.path)
	return nil
}
