package disklog

import "github.com/millrace/millrace/dataflow/durable/journal"

// tailBytes bounds a tail. A reader that is further behind reads from the files. Connectors send
// messages of 2 MiB, and a tail holds a few of them.
const tailBytes = 8 << 20

// A tail holds the last messages of a partition in memory, for the reader that reads them ahead.
type tail struct {
	before   uint64 // position of the message before the first one
	messages []journal.Message
	sizes    []int
	bytes    int // sum of sizes
}

// add adds the message that follows the one at before.
func (t *tail) add(before uint64, m journal.Message) {
	if n := len(t.messages); n == 0 || t.messages[n-1].Position != before {
		*t = tail{before: before}
	}
	size := 0
	for _, r := range m.Records {
		size += len(r)
	}
	t.messages, t.sizes, t.bytes = append(t.messages, m), append(t.sizes, size), t.bytes+size
	for t.bytes > tailBytes {
		t.drop(1)
	}
}

func (t *tail) drop(n int) {
	for i := range n {
		t.before = t.messages[i].Position
		t.bytes -= t.sizes[i]
		t.messages[i] = journal.Message{}
	}
	t.messages, t.sizes = t.messages[n:], t.sizes[n:]
}

// after returns the messages after a position, with at most max bytes beyond the first one. It
// removes them and everything before them. If it does not have the first one, it returns none.
func (t *tail) after(position uint64, max int) (out []journal.Message) {
	n := 0
	for n < len(t.messages) && t.messages[n].Position <= position {
		n++
	}
	t.drop(n)
	if position < t.before {
		return nil
	}
	n = 0
	for size := 0; n < len(t.messages); n++ {
		if n > 0 {
			if size += t.sizes[n]; size > max {
				break
			}
		}
	}
	out = append(out, t.messages[:n]...)
	t.drop(n)
	return out
}

// recent calls [tail.after] on what is shown to readers that read ahead.
func (p *partition) recent(position uint64, max int) []journal.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.after(position, max)
}
