package plain

import (
	"io"
	"sync"
	"unicode/utf8"
)

// A Writer writes the [Text] form of what is written to it. Its methods may be used by any
// number of goroutines.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the beginning of an incomplete character
}

// NewWriter returns a writer that writes to w, which is a terminal or may be read on one.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes p. If p ends within a character, that character is written with the next p.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := text[len(text)-back:]; utf8.RuneStart(at[0]) {
			if !utf8.FullRune(at) {
				whole = len(text) - back
			}
			break
		}
	}
	out := Text(string(text[:whole]))
	w.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.w, out); err != nil {
		return 0, err
	}
	return len(p), nil
}
