package openai

import (
	"encoding/json"
	"slices"

	"github.com/sashabaranov/go-openai"

	"github.com/millrace/millrace/agentproto/conversation"
)

// params returns a request in the words of the service.
func (m *Model) params(r *conversation.Request) openai.ChatCompletionRequest {
	p := openai.ChatCompletionRequest{Model: m.opts.Name, MaxCompletionTokens: int(m.opts.MaxTokens)}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Described(), Parameters: schema(t),
		}})
	}
	say := func(role, text string) {
		p.Messages = append(p.Messages, openai.ChatCompletionMessage{Role: role, Content: text})
	}
	if slices.ContainsFunc(r.Tools, func(t conversation.Tool) bool { return t.Toolset != "" }) {
		say(openai.ChatMessageRoleSystem, conversation.Strangers)
	}
	if r.Session != nil && r.Session.Instructions != "" {
		say(openai.ChatMessageRoleSystem, r.Session.Instructions)
	}
	// A result cannot have images there, so they follow behind the results of a message.
	var images []openai.ChatMessagePart
	show := func() {
		if len(images) > 0 {
			p.Messages = append(p.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, MultiContent: images})
			images = nil
		}
	}
	for i := range r.Messages {
		message := &r.Messages[i]
		switch message.Kind {
		case conversation.User:
			show()
			say(openai.ChatMessageRoleUser, message.Text)
		case conversation.Assistant:
			show()
			if message.Text != "" || len(message.Calls) > 0 { // it may have had nothing to say
				p.Messages = append(p.Messages, assistant(message))
			}
		case conversation.Result:
			p.Messages = append(p.Messages, openai.ChatCompletionMessage{
				Role: openai.ChatMessageRoleTool, Content: message.Result.Text(), ToolCallID: message.Result.ID,
			})
			images = append(images, imagesOf(message.Result)...)
		}
	}
	show()
	return p
}

// assistant returns what the model said before.
func assistant(message *conversation.Message) openai.ChatCompletionMessage {
	said := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: message.Text}
	for _, c := range message.Calls {
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		said.ToolCalls = append(said.ToolCalls, openai.ToolCall{
			ID: c.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: c.Name, Arguments: args},
		})
	}
	return said
}

// imagesOf returns the images of a result, behind a text that says which it is.
func imagesOf(r *conversation.ToolResult) (parts []openai.ChatMessagePart) {
	for i := range r.Content {
		c := &r.Content[i]
		if _, usable := c.Image(); !usable {
			continue
		}
		if parts == nil {
			parts = append(parts, openai.ChatMessagePart{
				Type: openai.ChatMessagePartTypeText, Text: "Images of the result of " + r.ID + ":",
			})
		}
		parts = append(parts, openai.ChatMessagePart{
			Type:     openai.ChatMessagePartTypeImageURL,
			ImageURL: &openai.ChatMessageImageURL{URL: "data:" + c.MediaType + ";base64," + c.Data},
		})
	}
	return parts
}

// schema returns the schema of a tool's arguments; one that is no object, which a service
// would refuse together with everything else, becomes one that takes any object.
func schema(t conversation.Tool) map[string]any {
	var members map[string]any
	if json.Unmarshal(t.Schema, &members) != nil || members == nil {
		members = map[string]any{}
	}
	if _, ok := members["type"]; !ok {
		members["type"] = "object"
	}
	return members
}
