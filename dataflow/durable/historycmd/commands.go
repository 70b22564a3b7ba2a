package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/keytext"
)

func (r *run) list(ctx context.Context) error {
	fmt.Fprintf(r.out, "partition  messages     steps       bytes  last step  snapshot after\n")
	for p := range r.history.Partitions() {
		info, err := r.history.Partition(ctx, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "%9d %9d %9d %11d %10d %15d\n", p, info.Records, info.Steps, info.Bytes, info.Last, info.Snapshot)
	}
	return nil
}

// one returns the partition that a command is about which is about one.
func (r *run) one() int { return max(r.partition, 0) }

func (r *run) show(ctx context.Context) error {
	for s, err := range r.history.Steps(ctx, r.one()) {
		switch {
		case err != nil:
			return err
		case s.Number < r.from:
			continue
		case r.to != 0 && s.Number > r.to:
			return nil
		}
		at := "-"
		if !s.At.IsZero() {
			at = s.At.UTC().Format(time.RFC3339Nano)
		}
		fmt.Fprintf(r.out, "step %d at %s: took up to message %d, refused %d\n", s.Number, at, s.Taken, s.Refused)
		if err := r.history.DescribeOutputs(indenter{r.out}, r.one(), s.Outputs); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) replay(ctx context.Context) error {
	return r.history.Replay(ctx, r.one(), r.to, r.out, r.most)
}

func (r *run) export(ctx context.Context) (err error) {
	f, err := os.OpenFile(r.args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(r.history.Export(ctx, f, r.one(), r.to), f.Close()); err != nil {
		return errors.Join(err, os.Remove(r.args[0]))
	}
	return nil
}

// key prints what was remembered of a key, and marks what is new in it.
func (r *run) key(ctx context.Context) error {
	graph := r.history.Graph()
	key, location, err := parse(graph, r.args[0], r.args[1])
	if err != nil {
		return err
	}
	changed := false
	for p := range r.history.Partitions() {
		if r.partition >= 0 && p != r.partition || !slices.Contains(location, r.history.Location(p)) {
			continue
		}
		var was []dataflow.StateEntry
		for c, err := range r.history.Changes(ctx, p, key, r.from, r.to) {
			if err != nil {
				return err
			}
			changed = true
			fmt.Fprintf(r.out, "partition %d step %d at %s\n", p, c.Step, c.At.UTC().Format(time.RFC3339Nano))
			r.difference(graph, was, c.Entries)
			was = c.Entries
		}
	}
	if !changed {
		fmt.Fprintf(r.out, "no operator remembered %s\n", r.args[1])
	}
	return nil
}

// difference prints entries: with a plus those that are new or have changed, with a minus those
// that are gone.
func (r *run) difference(graph dataflow.Graph, was, is []dataflow.StateEntry) {
	print := func(mark string, e dataflow.StateEntry) {
		o := graph.Operators[e.Operator]
		name := o.Name
		if o.Label+o.Port != "" {
			name += " " + o.Label + o.Port
		}
		text := e.Value
		if !e.Due.IsZero() {
			text = strings.TrimSpace(text + " until " + e.Due.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintf(r.out, "  %s %d %s (%s) %s: %s\n", mark, e.Operator, name, o.Pos, o.States[e.State].Kind, text)
	}
	for _, e := range is {
		mark := " "
		if !slices.Contains(was, e) {
			mark = "+"
		}
		print(mark, e)
	}
	for _, e := range was {
		if !slices.ContainsFunc(is, func(now dataflow.StateEntry) bool { return now.Operator == e.Operator && now.State == e.State }) {
			print("-", e)
		}
	}
}

// parse reads a key of the first type with the name, and returns the locations that have such keys.
func parse(graph dataflow.Graph, name, text string) (key any, locations []string, err error) {
	var types []string
	var is reflect.Type
	for _, o := range graph.Operators {
		for _, s := range o.States {
			if s.Key == nil {
				continue
			}
			types = append(types, s.Key.String())
			if is == nil && s.Key.String() == name {
				is = s.Key
			}
			if is != nil && s.Key == is {
				locations = append(locations, graph.Locations[o.Location])
			}
		}
	}
	if is == nil {
		slices.Sort(types)
		return nil, nil, fmt.Errorf("nothing has keys of type %q; the types are %s", name, strings.Join(slices.Compact(types), ", "))
	}
	key, err = keytext.Parse(is, text)
	return key, locations, err
}

// An indenter indents the lines that are written to it. Each write is whole lines.
type indenter struct{ w io.Writer }

func (i indenter) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(i.w, "  %s", p)
	return len(p), err
}
