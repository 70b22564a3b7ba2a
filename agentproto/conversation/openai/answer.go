package openai

import (
	"cmp"
	"crypto/rand"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A chunk is one part of an answer, or a whole answer. Members that services write in different ways are decoded by hand.
type chunk struct {
	Object  string         `json:"object"`
	Choices []choice       `json:"choices"`
	Error   jsontext.Value `json:"error"`
	Usage   jsontext.Value `json:"usage"`
}

// A counted is the service's count of tokens.
type counted struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type choice struct {
	Index        jsontext.Value `json:"index"`
	Delta        *said          `json:"delta"`   // a part of the answer
	Message      *said          `json:"message"` // the whole answer
	FinishReason jsontext.Value `json:"finish_reason"`
	Error        jsontext.Value `json:"error"`
}

type said struct {
	Content   jsontext.Value `json:"content"`
	Refusal   jsontext.Value `json:"refusal"`
	ToolCalls []struct {
		Index    jsontext.Value `json:"index"`
		ID       jsontext.Value `json:"id"`
		Function called         `json:"function"`
	} `json:"tool_calls"`
	FunctionCall *called `json:"function_call"` // the only call, in the format of older services
}

type called struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// An answer is assembled from the parts in which it arrives. It is held in memory until it is complete, so its texts and calls
// are bounded.
type answer struct {
	tools         []string // the names of the tools offered to the model
	text, refusal strings.Builder
	calls, older  []*call
	size          int // of all texts together, in bytes

	chosen bool // a choice has arrived
	done   bool // the service said that the answer is complete
	// The number of parts read, and the numbers of the last part with a finish reason and of the last part that added something.
	parts, finished, grown int

	usage    conversation.Usage
	streamed streamed
}

const maxSize, maxCalls = 16 << 20, 1024

// lenient lets services write imperfect JSON.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// add handles one part. An error is errLong, errBroken, a *reported or one of package json.
func (a *answer) add(data jsontext.Value) error {
	var part chunk
	if err := json.Unmarshal(data, &part, lenient); err != nil {
		return err
	}
	if present(part.Error) {
		return reportedIn(part.Error)
	}
	if part.Object == "error" {
		return reportedIn(data)
	}
	a.parts++
	a.count(part.Usage)
	for i := range part.Choices {
		c := &part.Choices[i]
		if n := text(c.Index); n != "0" && (n != "" || i != 0) {
			continue // an alternative, which was not requested
		}
		if present(c.Error) {
			return reportedIn(c.Error)
		}
		a.chosen = true
		before := a.size
		switch {
		case c.Message != nil:
			// A whole message replaces the parts before it.
			a.text.Reset()
			a.refusal.Reset()
			a.calls, a.older = nil, nil
			a.take(c.Message, true)
		case c.Delta != nil:
			a.take(c.Delta, false)
		}
		if a.size != before {
			a.grown = a.parts
		}
		switch text(c.FinishReason) {
		case "":
		case "error":
			return errBroken
		default:
			a.finished = a.parts
		}
		if a.size > maxSize || len(a.calls) > maxCalls {
			return errLong
		}
	}
	return nil
}

// count records the service's counts. Some services count in every part, so the last count holds. A count that cannot be decoded
// is ignored.
func (a *answer) count(v jsontext.Value) {
	var c counted
	if v.Kind() != '{' || json.Unmarshal(v, &c, lenient) != nil {
		return
	}
	u := conversation.Usage{Input: max(0, c.Prompt), Output: max(0, c.Completion)}
	if c.Details != nil {
		u.Cached = min(max(0, c.Details.Cached), u.Input)
	}
	a.usage = u
}

// take adds a part of the answer. Each call in a whole message is a separate call.
func (a *answer) take(s *said, whole bool) {
	words, refusal := contentOf(s.Content), text(s.Refusal)
	a.text.WriteString(words)
	a.refusal.WriteString(refusal)
	a.size += len(words) + len(refusal)
	for i := range s.ToolCalls {
		c := &s.ToolCalls[i]
		p := piecemeal{text(c.Index), text(c.ID), c.Function.Name, text(c.Function.Arguments)}
		a.size += len(p.id) + len(p.name) + len(p.args)
		switch {
		case p.id == "" && p.name == "" && p.args == "":
		case whole:
			a.calls = append(a.calls, newCall(&p))
		default:
			a.calls = place(a.calls, &p, a.tools)
		}
	}
	if f := s.FunctionCall; f != nil {
		p := piecemeal{id: "the only one", name: f.Name, args: text(f.Arguments)}
		a.size += len(p.name) + len(p.args)
		a.older = place(a.older, &p, a.tools)
	}
}

// last reports whether the service gave a finish reason and added nothing after it.
func (a *answer) last() bool { return a.finished > 0 && a.finished >= a.grown }

// words returns the text so far.
func (a *answer) words() string { return cmp.Or(a.text.String(), a.refusal.String()) }

// reply returns the whole answer, or an error if it is incomplete. If a service gives no finish reason, the answer counts as
// complete unless something shows that it is not.
func (a *answer) reply() (*conversation.Reply, error) {
	reply := &conversation.Reply{Text: a.words(), Usage: a.usage}
	calls := a.calls
	if len(calls) == 0 {
		calls = a.older
		for _, c := range calls {
			c.id = ""
		}
	}
	// If the service says that arguments are complete, they are the model's words, and an error in them is the model's mistake.
	// Other arguments may have been cut.
	said := a.finished > 0 && (a.done || a.finished > a.grown)
	for _, c := range calls {
		args := c.args.String()
		if blank(args) && (a.done || said) {
			args = "{}"
		}
		if c.name == "" && blank(c.args.String()) {
			continue
		}
		if !said && (c.name == "" || !jsontext.Value(args).IsValid(lenient)) {
			return nil, errBroken
		}
		if c.id == "" {
			c.id = "call_" + rand.Text()[:16]
		}
		reply.Calls = append(reply.Calls, conversation.Call{ID: c.id, Name: c.name, Arguments: args})
	}
	if a.finished == 0 && reply.Text == "" && len(reply.Calls) == 0 {
		return nil, errBroken
	}
	return reply, nil
}

// present reports whether a member has a value other than null.
func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// text returns a string as it is, any other value as its JSON text, and "" for null and an absent value.
func text(v jsontext.Value) string {
	if !present(v) {
		return ""
	}
	var s string
	if v.Kind() == '"' {
		if json.Unmarshal(v, &s, lenient) != nil {
			return ""
		}
		return s
	}
	v = v.Clone()
	if v.Compact(lenient) != nil {
		return ""
	}
	return string(v)
}

// contentOf returns the text of a message, which some services split into pieces of several types.
func contentOf(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		return text(v)
	case '[':
		var pieces []struct {
			Type string         `json:"type"`
			Text jsontext.Value `json:"text"`
		}
		if json.Unmarshal(v, &pieces, lenient) != nil {
			return ""
		}
		var all strings.Builder
		for _, p := range pieces {
			if p.Type == "text" {
				all.WriteString(text(p.Text))
			}
		}
		return all.String()
	}
	return ""
}
