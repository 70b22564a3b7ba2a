package agentproto

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

// Of what a call leaves behind, the result may be large. So it is kept whole until it was read, and a
// little longer: whoever did not get the answer may ask again. And a thread keeps only so many bytes of
// large results, for an hour, so that a tool costs its own thread only. What stays of a result says how large it was.

const (
	// LargeResult is how many bytes a result has at most that stays as it is for as long as its call
	// is remembered: see [Program.Read].
	LargeResult = 1 << 10
	// countedResult is how many bytes a result has that its thread counts. To be counted costs a record.
	countedResult = 16 << 10
	// readResult is how long a large result is kept when it was read, and unreadResult one that is counted, if nobody reads it.
	readResult   = 10 * time.Minute
	unreadResult = time.Hour
	// DefaultResults is how many bytes of results a thread keeps.
	DefaultResults = 2 << 20
)

// A resultChange says what an emission does to the resolution that is kept.
type resultChange uint8

const (
	resultGone     resultChange = iota + 1 // it is forgotten
	resultReplaced                         // by the resolution of the emission
)

// A large is what a call remembers of a result that is kept whole.
type large struct {
	Bytes  int
	Error  bool
	Server string
	Read   bool
}

// Size returns how many bytes the texts and images of a result have.
func (r *ToolResult) Size() (n int) {
	if r.Text != nil {
		n = len(*r.Text)
	}
	for i := range r.Content {
		n += len(r.Content[i].Text) + len(r.Content[i].Data)
	}
	for i := range r.DisplayAs {
		n += r.DisplayAs[i].size()
	}
	return n
}

// KeptFor returns for how long a result is kept that nobody reads, where calls are remembered for retain: a large one is cut
// earlier. See [Program.Read] for one that is read, and [ProgramOptions].Results for what may cut it still earlier.
func (r *ToolResult) KeptFor(retain time.Duration) time.Duration {
	if r.Size() >= countedResult {
		return min(retain, unreadResult)
	}
	return retain
}

func (d *Display) size() (n int) {
	n = len(d.Text)
	if d.Diff != nil {
		n += len(d.Diff.Path) + len(d.Diff.Patch)
	}
	if d.Image != nil {
		n += len(d.Image.Data)
	}
	return n
}

// keepWhole keeps a large result for a while.
func (t turn) keepWhole(call *Call, result *ToolResult) {
	n := result.Size()
	if n <= LargeResult || t.retain == 0 {
		return
	}
	t.s.Large = &large{Bytes: n, Error: result.IsError(), Server: call.Server}
	if call.Told {
		t.read()
	} else if n >= countedResult {
		t.do.After(whole, unreadResult)
		t.do.Call(request{Notice: &Notice{Key: t.do.Key(), Kept: n}})
	}
}

// read has a large result go in a while.
func (t turn) read() {
	if l := t.s.Large; l != nil && !l.Read {
		l.Read = true
		t.do.After(whole, readResult)
	}
}

// cut replaces a large result by how large it was, and forgets the events of a subscription that has ended.
func (t turn) cut() {
	if h := t.s.Heard; h != nil && h.Ended {
		h.Texts = nil
	}
	l := t.s.Large
	if l == nil {
		return
	}
	t.s.Large = nil
	key := t.do.Key()
	text := fmt.Sprintf("[a result of %d bytes, which is no longer kept]", l.Bytes)
	if l.Error {
		text = errorPrefix + text
	}
	t.do.Emit(emission{Result: resultGone})
	t.do.Emit(emission{Result: resultReplaced, Resolution: &Resolution{
		Key: key, Cause: t.s.Cause, Server: l.Server, Result: &ToolResult{GroupID: key.GroupID, ID: key.ID, Text: &text},
	}})
}

// keepResults keeps the resolution of each call for as long as the call says.
func keepResults(emitted emissionsAt) resolutionsAt {
	changes := keyedstream.Filter(emitted, func(e emission) bool { return e.Effect == nil })
	_, kept := keyedstream.Machine(changes, func() struct{} { return struct{}{} },
		func(_ *struct{}, e emission, do *keyedstream.Turn[CallKey, struct{}, *Resolution]) {
			if e.Result == resultGone {
				do.Forget()
				return
			}
			do.Decide(e.Resolution)
		})
	return kept
}

// Read says that a resolution was read by whom it is for. A large result is kept for ten minutes
// more, and then replaced by a text that says how large it was; without [ProgramOptions].Retain it stays.
func (p *Program) Read(ctx context.Context, r *Resolution) error {
	if r.Result.Size() <= LargeResult {
		return nil
	}
	return p.events.Send(ctx, r.Key, input{Event: &event{Event: Event{Kind: resultRead}}})
}

// A kept is a result that a thread counts.
type kept struct {
	ID    string
	Bytes int
	Old   bool // it was there at the last sweep
}

// count counts a result, and has the oldest ones cut that are too much with it.
func (t *thread) count(k *kept, most int, emit func(told)) {
	t.Kept = append(t.Kept, *k)
	sum := 0
	for _, k := range t.Kept {
		sum += k.Bytes
	}
	for sum > most && len(t.Kept) > 1 {
		sum -= t.Kept[0].Bytes
		emit(told{ID: t.Kept[0].ID, Event: tooMuchEvent})
		t.Kept = t.Kept[1:]
	}
}

// age forgets the results that were there two sweeps ago, which are forgotten by now.
func (t *thread) age() {
	t.Kept = slices.DeleteFunc(t.Kept, func(k kept) bool { return k.Old })
	for i := range t.Kept {
		t.Kept[i].Old = true
	}
}

var tooMuchEvent = &event{Event: Event{Kind: resultTooMuch}}
