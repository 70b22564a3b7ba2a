package durable

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/identity"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A program says how the program of this process continues the history of a partition.
type program struct {
	numbers *logdriven.Numbers // from now on
	made    *identity.Shape    // shape of the program that made the steps being replayed
	changed bool               // the history does not say yet that it belongs to this program
	other   bool               // another program made the state that the history begins with
	same    bool               // made has the same operators as this program

	converts bool // records and state of the replayed steps have types that are converted

	reads, loads func(int32) codec.Codec // by operator: the codecs of records, and of state; nil for that of the flow
}

// isMade reports whether the program that made the steps has the same operators.
func (p *program) isMade() bool { return p.made.String() == p.numbers.Shape().String() }

// fit compares the program with the one that made the history. Begins is the snapshot that the history begins
// with, or nil. The error says what has changed and must be declared.
func (o *owner) fit(h *journal.History, begins *snapshot) error {
	saved, last, err := shapesOf(o.of, h, begins)
	if err != nil {
		return o.damaged("%v", err)
	}
	return o.fitShapes(saved, last, h.Fence)
}

// fitShapes is fit for a history up to a fence. It begins with the state of a program with the shape saved, and
// ends with a program with the shape last; both are nil if it has not begun.
func (o *owner) fitShapes(saved, last *identity.Shape, fence uint64) error {
	loc, lines := o.executor.Location(), linesOf(o.opts.Upgrade)
	if last == nil {
		last = &identity.Shape{Location: loc.Name}
		saved = last
	}
	if o.shared != nil {
		if digest := identity.Of(loc).Digest(); last.Overtaken(digest) {
			return fmt.Errorf("%w: program %s made an earlier part of it, and program %s has gone on: start that one, or restore a backup; a program that is to go on otherwise gives an operator another name",
				ErrChanged, digest, last.Programs[len(last.Programs)-1])
		}
	}
	next, changes := identity.Next(last, loc, lines)
	if refuses(changes) {
		return changedError(changes)
	}
	if twins := next.Twins(); len(twins) > 0 && (fence == 0 || o.opts.RequireNames) {
		if err := o.twins(loc.Name, twins); err != nil {
			return err
		}
	}
	convert, stale := identity.Kept(saved, next, lines)
	if len(stale) > 0 {
		return changedError(stale)
	}
	o.program = program{numbers: logdriven.NewNumbers(next), made: saved, changed: next.String() != last.String(), other: next.String() != saved.String()}
	var of func(int32) codec.Codec
	if len(convert) > 0 {
		of = func(op int32) codec.Codec {
			if by := convert[op]; by != nil {
				return converter{o.opts.Codec, by}
			}
			return nil
		}
	}
	o.program.converts = of != nil
	o.program.reads, o.program.loads = of, o.exactly(next, lines, of)
	o.executor.Use(o.program.numbers, of)
	if fence > 0 {
		for _, x := range changes {
			o.opts.Logger.Info("the program has changed since the history was made", "partition", o.partition, "location", x.Location, "change", x.What)
		}
	}
	return nil
}

// refuses reports whether there is a change that must be declared.
func refuses(changes []identity.Change) bool {
	for _, x := range changes {
		if x.Requirement != identity.Allowed {
			return true
		}
	}
	return false
}

// twins reports operators that only their order distinguishes, as an error or in the log.
func (c *core) twins(location string, twins [][]identity.Operator) error {
	for _, group := range twins {
		var places []string
		for _, o := range group {
			places = append(places, o.Pos)
		}
		if c.opts.RequireNames {
			return fmt.Errorf("durable: %s: only their order tells the operators %s at %s apart: name them with dataflow.Named", location, group[0].Identity, strings.Join(places, " and "))
		}
		c.opts.Logger.Warn("only their order tells operators apart: name them with dataflow.Named, so that one can be added or taken out later",
			"location", location, "operator", group[0].Identity, "at", places)
	}
	return nil
}

// shapesOf returns the shape of the state at the beginning of a history, and that of the last program of the
// history. They are nil if there is none.
func shapesOf(of origin, h *journal.History, begins *snapshot) (saved, last *identity.Shape, err error) {
	if begins != nil {
		if saved, err = parseShape(begins.shape); err != nil {
			return nil, nil, err
		}
		last = saved
	}
	for _, committed := range h.Steps {
		if !hasShape(committed.Data) {
			continue
		}
		s, err := decodeStep(of, committed.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("step %d: %w", committed.Fence, err)
		}
		if last, err = parseShape(s.shape); err != nil {
			return nil, nil, fmt.Errorf("step %d: %w", committed.Fence, err)
		}
		if saved == nil {
			saved = last
		}
	}
	return saved, last, nil
}

func parseShape(text string) (*identity.Shape, error) {
	all, err := identity.Parse(text)
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("what it says of its program is damaged: %w", err)
	}
	return all[0], nil
}

// counts returns a function that reports which outputs of a step made by an earlier program must be the same:
// those that both programs have.
func (p *program) counts() func(number int32) bool {
	live := make(map[int32]bool)
	for _, x := range p.made.Operators {
		live[x.Number] = !x.Gone
	}
	return func(number int32) bool {
		_, has := p.numbers.Op(number)
		return has && live[number]
	}
}

// beginChanged writes into the history that it now belongs to this program, and makes a snapshot, so that steps
// made by another program need not be replayed again.
func (o *owner) beginChanged(ctx context.Context) error {
	o.executor.Use(o.program.numbers, nil)
	s := o.next(o.last.now)
	s.changed, s.shape = true, o.program.numbers.Shape().String()
	if err := o.commit(ctx, &s); err != nil {
		return err
	}
	o.program.changed = false
	if err := o.snapshotNow(ctx); err != nil { // the next one is as good
		o.opts.Logger.Warn("a changed program begins without a snapshot", "partition", o.partition, "error", err)
	}
	return nil
}

// A waitsError is an [ErrChanged] that no longer applies once the program that made the history has taken the
// waiting records.
type waitsError struct{ error }

func (e waitsError) Unwrap() error { return e.error }

// nothingWaits returns an error if records wait for an input that is gone, or if records that wait, also in
// quarantine, were sent in a type that is converted.
func (o *owner) nothingWaits(ctx context.Context, saved *identity.Shape) error {
	was := make(map[int32]*identity.Operator)
	for i := range saved.Operators {
		was[saved.Operators[i].Number] = &saved.Operators[i]
	}
	concerned := make(map[int32]*identity.Operator)
	for i := range o.program.numbers.Shape().Operators {
		is := &o.program.numbers.Shape().Operators[i]
		if before := was[is.Number]; before != nil && !before.Gone && (is.Gone && !is.Discards || !is.Gone && is.Converted(before)) {
			concerned[is.Number] = is
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	for _, x := range concerned { // elements on their way to another location are stored as they were encoded
		if out, err := o.executor.Location().Output(x.Index); err == nil {
			if u, ok := out.(engine.Unsent); ok && u.Figures().Unread > 0 {
				return waitsError{changedError([]identity.Change{{
					Location: o.executor.Location().Name, Requirement: identity.Loses, Line: "let the program that made the history send them",
					What: fmt.Sprintf("%s sends other types, and %d elements wait to be sent", x.Identity, u.Figures().Unread),
				}})}
			}
		}
	}
	for _, l := range o.executor.Letters() { // those of an input that is gone can be dropped later
		if x := concerned[l.Op]; x != nil && !x.Gone {
			return waitsError{changedError([]identity.Change{{
				Location: o.executor.Location().Name, Requirement: identity.Loses, Line: "let the program that made the history retry or drop them (durable.App.Retry, Drop)",
				What: fmt.Sprintf("%s has other types, and records for it that came before are in quarantine (letter %d)", x.Identity, l.ID),
			}})}
		}
	}
	reader, err := o.log.Read(ctx, o.partition, o.last.taken)
	if err != nil {
		return err
	}
	defer reader.Close()
	last, err := reader.Last(ctx)
	if err != nil {
		return err
	}
	waiting := make(map[int32]int)
	from := &source{reader: reader, of: o.of, max: o.opts.StepBytes}
	for at := o.last.taken; at < last; {
		ms, err := from.next(ctx)
		if err != nil {
			return o.unreadable(err)
		}
		for _, m := range ms {
			at = m.position
			for _, data := range m.records {
				r, err := codec.DecodeRecord(data)
				if err != nil || r.Kind != codec.KindValue && r.Kind != codec.KindAnswer {
					continue
				}
				if r.Name != "" {
					r.Op = o.program.numbers.SentTo(&r)
				}
				if concerned[r.Op] != nil {
					waiting[r.Op]++
				}
			}
		}
	}
	for number, n := range waiting {
		x := concerned[number]
		change := identity.Change{Location: o.executor.Location().Name, Requirement: identity.Loses}
		if x.Gone {
			change.What = fmt.Sprintf("%s is gone, and %d records wait for it", x.Identity, n)
			change.Line = fmt.Sprintf("let the program that made the history take them, or durable.DropRecords(%q) forgets them", x.Identity)
		} else {
			change.What = fmt.Sprintf("%s takes other types, and %d records wait for it that were sent before", x.Identity, n)
			change.Line = "let the program that made the history take them"
		}
		return waitsError{changedError([]identity.Change{change})}
	}
	return nil
}

// next returns the step after the last one, with nothing taken.
func (o *owner) next(now int64) step {
	s := step{fence: o.fence, place: o.last.place, version: o.opts.Version, newVersion: o.opts.Version != o.last.version}
	s.last, s.now = max(s.last, o.gateway.partitions[o.partition].acknowledged.Load()), now
	return s
}

// sendersOf returns the operators of a location by index, for records sent to partitions that another process
// owns.
func (c *core) sendersOf(s *engine.Location) map[int32]identity.Operator {
	all := make(map[int32]identity.Operator)
	for _, o := range identity.Of(s).Operators {
		o.Divided = s.Partitioned() && c.opts.Partitions > 1
		all[o.Index] = o
	}
	return all
}
