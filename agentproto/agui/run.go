package agui

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/sse"
)

// A run is a run that is being sent.
type run struct {
	out *sse.Writer
	in  *input
	err error // of the first event that could not be sent

	said     string // what the user says with this run, until it is in the history
	before   int    // number of messages before this run
	snapshot int    // number of messages in the first snapshot
	next     int    // number of the next message
	history  []map[string]any
	begun    bool // the first snapshot was sent
	waits    bool // the turn is not over
	failure  string
	over     bool

	state   *follow.State
	prompts []follow.Prompt

	writing string // id of the message that the model is writing, or ""
	written strings.Builder
}

func (r *run) send(event map[string]any) {
	if r.err == nil {
		r.err = r.out.Send("", "", event)
	}
}

func (r *run) tellState() {
	if r.state == nil || !r.begun {
		return
	}
	prompts := r.prompts
	if prompts == nil {
		prompts = []follow.Prompt{}
	}
	r.send(map[string]any{"type": "STATE_SNAPSHOT", "snapshot": map[string]any{
		"asking": r.state.Asking, "pending": r.state.Pending, "usage": r.state.Usage, "prompts": prompts,
	}})
}

// tellHistory sends all messages. This takes back any partial message.
func (r *run) tellHistory() {
	history := r.history
	if history == nil {
		history = []map[string]any{}
	}
	r.send(map[string]any{"type": "MESSAGES_SNAPSHOT", "messages": history})
}

// message handles a message of the history.
func (r *run) message(m *conversation.Message) {
	r.next = m.N + 1
	if shown := shownOf(m); shown != nil {
		r.history = append(r.history, shown)
	}
	if m.Kind == conversation.User && m.N >= r.before && m.Text == r.said {
		r.said = ""
	}
	if !r.begun && r.next >= r.snapshot {
		r.begun = true
		r.tellHistory()
		r.tellState()
		return
	}
	if !r.begun {
		return
	}
	id := idOf(m.N)
	switch m.Kind {
	case conversation.User: // another user or client said something
		r.void()
		r.tellHistory()
		r.waits = true
	case conversation.Assistant:
		r.reply(m, id)
	case conversation.Result:
		r.send(map[string]any{"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": m.Result.ID, "content": m.Result.Text(), "role": "tool"})
	case conversation.Notice:
		r.failure = m.Text
	case conversation.Summarized:
		r.send(map[string]any{"type": "CUSTOM", "name": "summary", "value": follow.MessageOf(m)})
	}
}

// reply sends the part of a model's message that was not sent while it was written.
func (r *run) reply(m *conversation.Message, id string) {
	if len(m.Notes) > 0 {
		r.send(map[string]any{"type": "CUSTOM", "name": "notes", "value": m.Notes})
	}
	rest, goes := strings.CutPrefix(m.Text, r.written.String())
	if !goes {
		r.void()
		r.tellHistory()
		rest = ""
	}
	if r.writing != "" {
		id = r.writing
	}
	if rest != "" {
		r.write(id, rest)
	}
	r.void()
	for _, c := range m.Calls {
		r.send(map[string]any{"type": "TOOL_CALL_START", "toolCallId": c.ID, "toolCallName": c.Name, "parentMessageId": id})
		if c.Arguments != "" {
			r.send(map[string]any{"type": "TOOL_CALL_ARGS", "toolCallId": c.ID, "delta": c.Arguments})
		}
		r.send(map[string]any{"type": "TOOL_CALL_END", "toolCallId": c.ID})
	}
	r.waits, r.failure = len(m.Calls) > 0, ""
}

// write sends a further part of a message.
func (r *run) write(id, text string) {
	if r.writing == "" {
		r.writing = id
		r.send(map[string]any{"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
	}
	r.written.WriteString(text)
	r.send(map[string]any{"type": "TEXT_MESSAGE_CONTENT", "messageId": r.writing, "delta": text})
}

// void ends the message that the model is writing.
func (r *run) void() {
	if r.writing != "" {
		r.send(map[string]any{"type": "TEXT_MESSAGE_END", "messageId": r.writing})
	}
	r.writing = ""
	r.written.Reset()
}

// reset takes back what the model has written.
func (r *run) reset() {
	if r.writing != "" {
		r.void()
		r.tellHistory()
	}
}

// delta sends what the model has written. Calls are sent when they are made, because their identifiers are not final before.
func (r *run) delta(d *host.ThreadDelta) {
	if d.Seq == 0 {
		r.reset()
	}
	if d.Text != "" && r.begun {
		r.write(fmt.Sprintf("r%d-%d", d.Round, d.Attempt), d.Text)
	}
}

// rest ends the run if the turn is over.
func (r *run) rest() {
	switch {
	case !r.begun || r.over:
	case r.failure != "" && r.state != nil && !r.state.Asking && len(r.state.Pending) == 0:
		r.fail(r.failure)
	case !r.waits && r.said == "":
		r.finish()
	}
}

func (r *run) finish() {
	r.void()
	if !r.over {
		r.over = true
		r.send(map[string]any{"type": "RUN_FINISHED", "threadId": r.in.ThreadID, "runId": r.in.RunID})
	}
}

func (r *run) fail(why string) {
	r.void()
	if !r.over {
		r.over = true
		r.send(map[string]any{"type": "RUN_ERROR", "message": why})
	}
}

func idOf(n int) string { return fmt.Sprint("m", n) }

// shownOf returns a message in the format of AG-UI, or nil for one that is not shown.
func shownOf(m *conversation.Message) map[string]any {
	shown := map[string]any{"id": idOf(m.N)}
	switch m.Kind {
	case conversation.User:
		shown["role"], shown["content"] = "user", m.Text
	case conversation.Assistant:
		shown["role"], shown["content"] = "assistant", m.Text
		var calls []any
		for _, c := range m.Calls {
			calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
		}
		if calls != nil {
			shown["toolCalls"] = calls
		}
	case conversation.Result:
		shown["role"], shown["content"], shown["toolCallId"] = "tool", m.Result.Text(), m.Result.ID
	default:
		return nil
	}
	return shown
}
