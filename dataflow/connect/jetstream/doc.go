// Package jetstream reads and writes streams of NATS JetStream. [Stream] is a source and [Sink] a sink.
//
//	orders := jetstream.Stream[struct{}, Order]{JetStream: js, Name: "ORDERS", Decode: order}
//	reader, err := orders.Reader()
//	pumps, err := connect.Attach(ctx, app, connect.Whole(reader), in, connect.Options{})
//
// # Reading
//
// A split is a stream, or the part of it that one of [Stream].Subjects selects. It is read by sequence, from the floor that the
// flow keeps. Nothing is acknowledged, and the server stores nothing about its readers. A stream that is deleted and created
// again has other splits.
//
// A position's Major is the sequence of a message, and its Minor the time at which the server stored it, in nanoseconds since
// 1970. So a floor identifies its message. If a stream has lost its end, such as after a restore from a backup, and has other
// messages at these sequences, the error is a [connect.ErrGap]. It is the same error if the stream's limits removed messages
// before they were read.
//
// A stream that forgets what is acknowledged, with work queue or interest retention, is refused.
//
// # Writing
//
// A [Sink] gives each lane a subject. The header Millrace-Number of a message is the element's number. Each message, or each
// atomic batch of messages, expects that the last message of the subject is the one that its writer knows. So an element and its
// number are stored together or not at all, and the server refuses a writer that was shut out. The message ids by which a server
// drops repeated messages are not used, because it forgets them after two minutes.
package jetstream
