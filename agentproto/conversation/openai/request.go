package openai

import (
	"encoding/json"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/millrace/millrace/agentproto/conversation"
)

// params returns a request in the words of the service.
func (m *Model) params(r *conversation.Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: m.opts.Name}
	if m.opts.MaxTokens > 0 {
		p.MaxCompletionTokens = param.NewOpt(m.opts.MaxTokens)
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Described()), Parameters: schema(t),
		}))
	}
	if slices.ContainsFunc(r.Tools, func(t conversation.Tool) bool { return t.Toolset != "" }) {
		p.Messages = append(p.Messages, openai.SystemMessage(conversation.Strangers))
	}
	if r.Session != nil && r.Session.Instructions != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.Session.Instructions))
	}
	// A result cannot have images there, so they follow behind the results of a message.
	var images []openai.ChatCompletionContentPartUnionParam
	show := func() {
		if len(images) > 0 {
			p.Messages = append(p.Messages, openai.UserMessage(images))
			images = nil
		}
	}
	for i := range r.Messages {
		message := &r.Messages[i]
		switch message.Kind {
		case conversation.User:
			show()
			p.Messages = append(p.Messages, openai.UserMessage(message.Text))
		case conversation.Assistant:
			show()
			p.Messages = append(p.Messages, assistant(message))
		case conversation.Result:
			p.Messages = append(p.Messages, openai.ToolMessage(message.Result.Text(), message.Result.ID))
			images = append(images, imagesOf(message.Result)...)
		}
	}
	show()
	return p
}

// assistant returns what the model said before.
func assistant(message *conversation.Message) openai.ChatCompletionMessageParamUnion {
	said := openai.ChatCompletionAssistantMessageParam{}
	if message.Text != "" || len(message.Calls) == 0 {
		said.Content.OfString = param.NewOpt(message.Text)
	}
	for _, c := range message.Calls {
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		said.ToolCalls = append(said.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: args},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &said}
}

// imagesOf returns the images of a result, behind a text that says which it is.
func imagesOf(r *conversation.ToolResult) (parts []openai.ChatCompletionContentPartUnionParam) {
	for i := range r.Content {
		c := &r.Content[i]
		if _, usable := c.Image(); !usable {
			continue
		}
		if parts == nil {
			parts = append(parts, openai.TextContentPart("Images of the result of "+r.ID+":"))
		}
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
			URL: "data:" + c.MediaType + ";base64," + c.Data,
		}))
	}
	return parts
}

// schema returns the schema of a tool's arguments; one that is no object, which a service
// would refuse together with everything else, becomes one that takes any object.
func schema(t conversation.Tool) shared.FunctionParameters {
	var members map[string]any
	if json.Unmarshal(t.Schema, &members) != nil || members == nil {
		members = map[string]any{}
	}
	if _, ok := members["type"]; !ok {
		members["type"] = "object"
	}
	return members
}
