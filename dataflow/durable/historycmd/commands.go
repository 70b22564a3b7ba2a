package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
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

// one returns the partition for a command that concerns a single partition.
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

func (r *run) export(ctx context.Context) error {
	return r.create(func(w io.Writer) error { return r.history.Export(ctx, w, r.one(), r.to) })
}

func (r *run) test(ctx context.Context) error {
	return r.create(func(w io.Writer) error { return r.history.ExportTest(ctx, w, r.one(), r.to) })
}

// create writes a new file by calling write, and removes it if that fails.
func (r *run) create(write func(io.Writer) error) error {
	f, err := os.OpenFile(r.args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(r.args[0]))
	}
	return nil
}

// diff prints the difference between what operators remembered after two steps.
func (r *run) diff(ctx context.Context) error {
	if r.from == 0 {
		return r.misused("diff needs --from, the number of a step")
	}
	graph, o := r.history.Graph(), durable.DiffOptions{Most: r.most}
	if r.most < 0 {
		o.Most = math.MaxInt
	}
	if len(r.args) > 0 {
		var err error
		if o.Key, _, err = parse(graph, r.args[0], r.args[1]); err != nil {
			return err
		}
	}
	d, err := r.history.Diff(ctx, r.one(), r.from, r.to, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "partition %d from step %d at %s to step %d at %s\n", r.one(),
		d.From.Number, d.From.At.UTC().Format(time.RFC3339Nano), d.To.Number, d.To.At.UTC().Format(time.RFC3339Nano))
	for _, c := range d.Changes {
		if c.Before != nil {
			r.entry(graph, "-", c.Before, o.Key == nil)
		}
		if c.After != nil {
			r.entry(graph, "+", c.After, o.Key == nil)
		}
	}
	switch {
	case d.Partial:
		fmt.Fprintf(r.out, "and others: there is more than can be compared\n")
	case d.More > 0:
		fmt.Fprintf(r.out, "and %d more: see --most\n", d.More)
	case len(d.Changes) == 0:
		fmt.Fprintf(r.out, "nothing is otherwise\n")
	}
	return nil
}

// key prints what was remembered of a key, and marks what changed.
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

// difference prints entries: with a plus those that are new or have changed, with a minus those of states that
// have no entry any longer.
func (r *run) difference(graph dataflow.Graph, was, is []dataflow.StateEntry) {
	for _, e := range is {
		mark := " "
		if !slices.Contains(was, e) {
			mark = "+"
		}
		r.entry(graph, mark, &e, false)
	}
	for _, e := range was {
		if !slices.ContainsFunc(is, func(now dataflow.StateEntry) bool { return now.Operator == e.Operator && now.State == e.State }) {
			r.entry(graph, "-", &e, false)
		}
	}
}

// entry prints an entry, with its key if entries of several keys are printed.
func (r *run) entry(graph dataflow.Graph, mark string, e *dataflow.StateEntry, key bool) {
	o := graph.Operators[e.Operator]
	name := o.Name
	if o.Label+o.Port != "" {
		name += " " + o.Label + o.Port
	}
	text := e.Value
	if !e.Due.IsZero() {
		text = strings.TrimSpace(text + " until " + e.Due.UTC().Format(time.RFC3339Nano))
	}
	if key && e.Key != "" {
		text = e.Key + ": " + text
	}
	fmt.Fprintf(r.out, "  %s %d %s (%s) %s: %s\n", mark, e.Operator, name, o.Pos, o.States[e.State].Kind, text)
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

// An indenter indents the lines that are written to it. Each write must be whole lines.
type indenter struct{ w io.Writer }

func (i indenter) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(i.w, "  %s", p)
	return len(p), err
}
