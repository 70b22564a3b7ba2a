package main

import (
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A scriptReply is one reply in a script file.
type scriptReply struct {
	Text  string       `json:"text"`
	Calls []scriptCall `json:"calls"`
	Times int          `json:"times,omitempty"` // how often in a row; zero means once
}

// maxTimes limits how often a reply may be given in a row.
const maxTimes = 100_000

type scriptCall struct {
	ID        string         `json:"id"`
	Operation string         `json:"operation"`
	Arguments jsontext.Value `json:"arguments"`
}

// scriptOf reads a model that gives the replies in a file.
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
	for i, r := range replies {
		reply := conversation.Reply{Text: r.Text}
		for _, c := range r.Calls {
			reply.Calls = append(reply.Calls, conversation.Call{ID: c.ID, Name: c.Operation, Arguments: string(c.Arguments)})
		}
		if r.Times < 0 || r.Times > maxTimes {
			return nil, fmt.Errorf("%s: reply %d is to be given %d times: up to %d are possible", name, i+1, r.Times, maxTimes)
		}
		for range max(1, r.Times) {
			script = append(script, reply)
		}
	}
	return script, nil
}
