// Package openai asks models behind the chat completions interface, which many services
// and servers for models of one's own understand.
//
//	rt, err := host.Start(ctx, host.Options{
//		Toolsets: toolsets,
//		Model:    openai.New(openai.Options{Name: "gpt-5", Key: os.Getenv("OPENAI_API_KEY")}),
//	})
//
// # What an answer may look like
//
// The interface has many implementations that differ. An answer may be a stream of events
// or one JSON object. Calls may have an index each, all the same one, or none; an
// identifier and a name once, in each part, or no identifier at all, in which case one is
// made; and arguments as a string or as an object. The reason why the model finished may be
// missing if the service says that it is done, or the response ends as it should. Tokens are
// counted where the service does so; one that refuses to be asked for it is not asked again. Comments,
// the model's reasoning and alternative answers are passed over. Answers are
// bounded by 16 MiB and 1,024 calls.
//
// # What is asked again
//
// A connection that breaks, a response that ends in the middle of something, and the
// statuses 408, 409, 429 and 5xx are errors after which the conversation asks again: no call
// is made with arguments that were cut. A response that is no answer at all, such as the
// page of a proxy, an answer beyond the bounds and every other status are permanent: the
// user is told at once.
//
// Images of results follow the results in a message of their own, since results there are
// text.
package openai
