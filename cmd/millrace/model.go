package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/conversation/openai"
)

// keyEnv has the key of the service that openai:URL names. It is not a flag, because
// everybody on a machine can read the flags of a process.
const keyEnv = "OPENAI_API_KEY"

// modelOf returns the model that a flag names, nil if it names none. Its name is needed
// for openai alone.
func modelOf(text, name, key string) (conversation.Model, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return nil, nil
	case kind == "script" && rest != "":
		return scriptOf(rest)
	case kind == "openai":
		if name == "" {
			return nil, errors.New("which model is to answer? --model openai needs --model-name")
		}
		if u, err := url.Parse(rest); err != nil || rest != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return nil, fmt.Errorf("--model is %q: behind openai: there has to be a URL such as https://api.openai.com/v1", text)
		}
		secret, err := os.Getenv(keyEnv), error(nil)
		if key != "" {
			secret, err = secretAt(key)
		}
		if err != nil {
			return nil, fmt.Errorf("--model-key: %w", err)
		}
		return openai.New(openai.Options{Name: name, BaseURL: rest, Key: secret}), nil
	}
	return nil, fmt.Errorf("--model is %q: it has to be script:FILE or openai:URL", text)
}

// A scriptReply is one reply in a file of them.
type scriptReply struct {
	Text  string       `json:"text"`
	Calls []scriptCall `json:"calls"`
	Times int          `json:"times,omitempty"` // how often in a row; zero means once
}

// maxTimes bounds how often a reply may be given in a row.
const maxTimes = 100_000

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
