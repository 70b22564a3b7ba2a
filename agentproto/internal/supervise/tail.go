package supervise

import (
	"bytes"
	"io"
	"sync"

	"github.com/millrace/millrace/internal/plain"
)

// tailBytes is how many bytes of a program's output are kept.
const tailBytes = 1 << 10

// A tail keeps the end of a program's output, and passes all of it on.
type tail struct {
	to io.Writer

	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer]. It never fails: the program would get a SIGPIPE.
func (t *tail) Write(p []byte) (int, error) {
	if t.to != nil {
		_, _ = t.to.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailBytes):]...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = t.text[:0]
}

// last returns the last non-empty line, cut if it is long.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.text)
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return plain.Line(string(bytes.ToValidUTF8(line[max(0, len(line)-256):], nil)))
}
