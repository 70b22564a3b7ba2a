package agentproto

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

// A result may be large. It is kept whole until it was read and a little longer, because a reader that did not get the answer may
// ask again. A thread keeps a limited number of bytes of large results, for an hour, so that the results of a tool cost only its
// own thread. A result that was removed leaves its size.

const (
	// LargeResult is the largest size in bytes of a result that stays unchanged for as long as its call is remembered: see
	// [Program.Read].
	LargeResult = 1 << 10
	// countedResult is the size in bytes from which the thread counts a result. Counting costs a record.
	countedResult = 16 << 10
	// readResult is how long a large result is kept after it was read. unreadResult is how long a counted one is kept if nobody
	// reads it.
	readResult   = 10 * time.Minute
	unreadResult = time.Hour
	// DefaultResults is how many bytes of results a thread keeps by default.
	DefaultResults = 2 << 20
)

// A resultChange says what an emission does to the stored resolution.
type resultChange uint8

const (
	resultGone     resultChange = iota + 1 // it is forgotten
	resultReplaced                         // the emission's resolution replaces it
)

// A large describes a large result that is kept whole.
type large struct {
	Bytes  int
	Error  bool
	Server string
	Read   bool
}

// Size returns the total size of a result's texts and images in bytes.
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

// KeptFor returns how long an unread result is kept if calls are remembered for retain: a large one is cut earlier.
// [Program.Read] cuts a result earlier, and so may [ProgramOptions].Results.
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

// read schedules the cut of a large result.
func (t turn) read() {
	if l := t.s.Large; l != nil && !l.Read {
		l.Read = true
		t.do.After(whole, readResult)
	}
}

// cut replaces a large result by a text that gives its size, and forgets the texts of a subscription that has ended.
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

// keepResults stores the resolution of each call until the call replaces or forgets it.
func keepResults(emitted emissionsAt) Resolutions {
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

// Read says that the recipient of a resolution has read it. A large result is kept for ten more minutes and then replaced by a
// text that gives its size. Without [ProgramOptions].Retain it stays.
func (p *Program) Read(ctx context.Context, r *Resolution) error {
	if r.Result.Size() <= LargeResult {
		return nil
	}
	return p.events.Send(ctx, r.Key, input{Event: &event{Event: Event{Kind: resultRead}}})
}

// A kept is a result that the thread counts.
type kept struct {
	ID    string
	Bytes int
	Old   bool // it existed at the last sweep
}

// count adds a result, and cuts the oldest ones until the sum is within most or only the new one is left.
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

// age removes the results that existed at the last sweep. Their calls have forgotten them by now.
func (t *thread) age() {
	t.Kept = slices.DeleteFunc(t.Kept, func(k kept) bool { return k.Old })
	for i := range t.Kept {
		t.Kept[i].Old = true
	}
}

var tooMuchEvent = &event{Event: Event{Kind: resultTooMuch}}
