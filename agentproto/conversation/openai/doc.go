// Package openai asks models behind the chat completions interface, which many services
// and servers for models of one's own understand.
//
//	rt, err := runtime.Start(ctx, runtime.Options{
//		Toolsets: toolsets,
//		Model:    openai.New(openai.Options{Name: "gpt-5", Key: os.Getenv("OPENAI_API_KEY")}),
//	})
//
// Answers are read as they come, so that a service that stops in the middle is noticed.
// What it answers 429 or 5xx, or not at all, is asked again by the conversation; what it
// refuses otherwise is told to the user. Images of results follow the results in a message
// of their own, since results there are text.
package openai
