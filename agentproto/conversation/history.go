package conversation

import (
	"fmt"
	"time"
)

// A line is a change of the stored history: a message is written, or dropped after a while.
type line struct {
	N       int
	Message *Message      // nil to drop it
	Keep    time.Duration // how long a dropped message stays; 0 drops it at once
	Back    bool          // the thread came from elsewhere, and the message may have been here before and been dropped
}

// droppedMessage is how long a dropped message stays readable, for readers that are in the middle of the history.
const droppedMessage = 10 * time.Minute

// Kept says which messages of a thread are kept: the first one, Said, Summary and those from First on.
type Kept struct {
	First int
	Said  int // the user's last message if it is before First; otherwise 0
	// Summary is the number of the summary in force, and From the number of the first message that it does not replace. Both are
	// 0 if there is no summary.
	Summary, From int
}

// next returns the number of the first message from n on that is kept or still to come.
func (k Kept) next(n int) int {
	if n <= 0 {
		return 0
	}
	at := max(n, k.First)
	for _, alone := range []int{k.Said, k.Summary} {
		if alone >= n {
			at = min(at, alone)
		}
	}
	return at
}

// alone returns the kept messages before First, except the very first one.
func (k Kept) alone() (all []int) {
	if k.Said > 0 {
		all = append(all, k.Said)
	}
	if k.Summary > 0 && k.Summary < k.First {
		all = append(all, k.Summary)
	}
	return all
}

// A written is what a thread remembers of a message in its history.
type written struct {
	Bytes int
	Kind  Kind
}

// messageOverhead is what a message counts in addition to its texts.
const messageOverhead = 256

// size returns how much a message counts in the budget of its thread.
func (m *Message) size() int {
	n := messageOverhead + len(m.Text) + len(m.Model)
	for _, note := range m.Notes {
		n += len(note)
	}
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.CallID) + len(c.Name) + len(c.Alias) + len(c.Arguments)
	}
	if m.Result != nil {
		n += m.Result.size()
	}
	return n
}

// size returns how much a result counts.
func (r *ToolResult) size() int {
	n := len(r.ID)
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data) + len(c.MediaType)
	}
	for _, d := range r.Display {
		n += len(d.Text)
		if d.Diff != nil {
			n += len(d.Diff.Path) + len(d.Diff.Patch)
		}
		if d.Image != nil {
			n += len(d.Image.Data)
		}
	}
	return n
}

// write appends a message to the history.
func (t *turn) write(m Message) {
	m.N = t.s.Messages
	t.s.Messages++
	t.keep(&m)
}

// keep stores a message that already has a number.
func (t *turn) keep(m *Message) {
	s, n := t.s, m.size()
	if m.N == s.Kept.First+len(s.Written) { // not for the first one, nor for the user's earlier message
		s.Written = append(s.Written, written{n, m.Kind})
		s.Bytes += n
	}
	t.emit(emission{Line: &line{N: m.N, Message: m}})
}

// drop removes a message after keep.
func (t *turn) drop(n int, keep time.Duration) { t.emit(emission{Line: &line{N: n, Keep: keep}}) }

// trim drops the oldest messages if they exceed the limit of the history, down to three quarters of it. A call stays as long as
// its result, and the user's last message always stays, because the model goes on from it. trim is called when all calls in the
// history have results.
func (t *turn) trim() {
	s := t.s
	if s.Bytes <= t.limits.History {
		return
	}
	cut, left := 0, s.Bytes
	for i, w := range s.Written {
		if i > 0 && w.Kind != Result {
			if cut = i; left <= t.limits.History/4*3 {
				break
			}
		}
		left -= w.Bytes
	}
	first := s.Kept.First
	for i, w := range s.Written[:cut] {
		s.Bytes -= w.Bytes
		if first+i == s.Kept.Summary {
			continue
		}
		if w.Kind != User {
			t.drop(first+i, droppedMessage)
			continue
		}
		if s.Kept.Said > 0 {
			t.drop(s.Kept.Said, droppedMessage)
		}
		s.Kept.Said = first + i
	}
	s.Written = append([]written(nil), s.Written[cut:]...)
	s.Kept.First = first + cut
	for _, w := range s.Written {
		if w.Kind == User && s.Kept.Said > 0 {
			t.drop(s.Kept.Said, droppedMessage)
			s.Kept.Said = 0
		}
	}
}

// dropAll removes all messages, when the thread is no longer kept.
func (t *turn) dropAll(keep time.Duration) {
	s := t.s
	t.drop(0, keep)
	for _, n := range s.Kept.alone() {
		t.drop(n, keep)
	}
	for n := s.Kept.First; n < s.Messages; n++ {
		t.drop(n, keep)
	}
}

// missing returns a message that tells the model of the gap in the history, or nil without a gap.
func (k Kept) missing() *Message {
	n := k.First - 1 - len(k.alone())
	if n <= 0 {
		return nil
	}
	return &Message{Kind: User, Text: fmt.Sprintf("[The first %d messages of this conversation are no longer kept.]", n)}
}
