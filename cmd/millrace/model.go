package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// modelOf returns the model that a flag names, nil if it names none.
func modelOf(text, name string) (conversation.Model, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return nil, nil
	case kind == "script" && rest != "":
		return scriptOf(rest)
	}
	return nil, fmt.Errorf("--model is %q: it has to be script:FILE or openai:URL", text)
}

// A scriptReply is one reply in a file of them.
type scriptReply struct {
	Text  string       `json:"text"`
	Calls []scriptCall `json:"calls"`
}

type scriptCall struct {
	ID        string         `json:"id"`
	Operation string         `json:"operation"`
	Arguments jsontext.Value `json:"arguments"`
}

// scriptOf reads a model that says what a file says.
func scriptOf(name string) (conversation.Model, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var replies []scriptReply
	if err := json.Unmarshal(data, &replies, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s is not an array of replies such as {\"text\": \"…\", \"calls\": [{\"operation\": \"…\", \"arguments\": {}}]}: %w", name, err)
	}
	script := make(conversation.Script, 0, len(replies))
	for _, r := range replies {
		reply := conversation.Reply{Text: r.Text}
		for _, c := range r.Calls {
			reply.Calls = append(reply.Calls, conversation.Call{ID: c.ID, Name: c.Operation, Arguments: string(c.Arguments)})
		}
		script = append(script, reply)
	}
	return script, nil
}
