package openai

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// cut returns a reader that returns the two halves of a text in one read each, and then an
// error.
func cut(text string, at int, end error) io.Reader {
	return io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(text[at:]), iotest.ErrReader(end))
}

// TestCuts splits an answer at every byte, and breaks or ends the connection there. A split
// makes no difference. A broken connection is an error that may be retried. A connection
// that ends early never produces a call with arguments other than the model's.
func TestCuts(t *testing.T) {
	said, made := wantedText[:3], wantedCalls[1:]
	texts := map[string]string{}
	for name, text := range services(said, made) {
		if !slices.Contains([]string{"plain, spaced", "no blank lines", "comments"}, name) {
			continue // the others take long and add no other kind of split
		}
		texts[name] = text
	}
	for _, m := range []mode{
		{index: "own", id: "first", name: "first", finish: "own", size: 9, done: true, eol: "\n"},
		{index: "zero", id: "each", name: "each", finish: "none", size: 3, done: true, eol: "\r\n"},
		{index: "none", id: "fresh", name: "first", finish: "last", size: 100, eol: "\r"},
	} {
		texts[m.String()] = m.write(said, made)
	}
	for name, text := range texts {
		if reply, err := ask(t, body{Reader: iotest.OneByteReader(strings.NewReader(text))}); err != nil || check(reply, said, made, true) != nil {
			t.Errorf("%s, byte by byte: %+v, %v", name, reply, err)
		}
		whole := len(text)
		if at := strings.Index(text, "[DONE]"); at >= 0 {
			whole = at + len("[DONE]") // and the end of the line, after which nothing can break
		}
		for i := range len(text) {
			reply, err := ask(t, body{Reader: cut(text, i, io.EOF)})
			if err != nil || check(reply, said, made, true) != nil {
				t.Fatalf("%s, divided at %d: %+v, %v", name, i, reply, err)
			}
			reply, err = ask(t, body{Reader: cut(text[:i], i, io.ErrUnexpectedEOF)})
			if i <= whole && (err == nil || conversation.IsPermanent(err)) {
				t.Fatalf("%s, broken at %d: %+v, %v", name, i, reply, err)
			}
			for _, unlimited := range []bool{false, true} {
				reply, err := ask(t, body{Reader: strings.NewReader(text[:i]), unlimited: unlimited})
				if err != nil {
					continue
				}
				if !strings.HasPrefix(said, reply.Text) || len(reply.Calls) > len(made) ||
					check(reply, reply.Text, made[:len(reply.Calls)], true) != nil {
					t.Fatalf("%s, ended at %d: %+v", name, i, reply)
				}
				if unlimited && check(reply, said, made, true) != nil && !strings.Contains(name, "finish=each") {
					t.Fatalf("%s, the connection ended at %d: %+v", name, i, reply)
				}
			}
		}
	}
}

// FuzzAnswer reads answers that no service sends. An answer is read in the same way however
// it is split. Each call in a reply has a name, and its arguments are JSON unless the
// service marks them as the model's own.
func FuzzAnswer(f *testing.F) {
	for _, text := range services(wantedText, wantedCalls) {
		f.Add([]byte(text))
	}
	f.Add([]byte(mode{index: "zero", id: "none", name: "trailing", finish: "none", size: 3, eol: "\r"}.write(wantedText, wantedCalls)))
	f.Add([]byte("event: error\ndata: {\"message\":\"no\"}\n\n"))
	f.Add([]byte(`{"object":"error","code":429}`))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		reply, err := ask(t, body{Reader: bytes.NewReader(data)})
		bytewise, again := ask(t, body{Reader: iotest.OneByteReader(bytes.NewReader(data))})
		if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("%v; byte by byte %v", err, again)
		}
		if err != nil {
			return
		}
		if reply.Text != bytewise.Text || len(reply.Calls) != len(bytewise.Calls) || len(reply.Calls) > maxCalls {
			t.Fatalf("%+v; byte by byte %+v", reply, bytewise)
		}
		ends := bytes.Contains(data, []byte("finish_reason"))
		for i, c := range reply.Calls {
			if other := bytewise.Calls[i]; c.Name != other.Name || c.Arguments != other.Arguments {
				t.Errorf("%+v; byte by byte %+v", c, other)
			}
			if c.ID == "" || !ends && (c.Name == "" || !jsontext.Value(c.Arguments).IsValid(lenient)) {
				t.Errorf("call %+v", c)
			}
		}
	})
}
