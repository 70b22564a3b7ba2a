// Package kafka reads and writes topics of Kafka. [Topic] is a source, and [Sink] and [PlainSink] are sinks.
//
//	orders := kafka.Topic[string, Order]{Seeds: seeds, Name: "orders", Decode: order}
//	reader, err := orders.Reader()
//	pumps, err := connect.Attach(ctx, app, connect.BySplit(reader), in, connect.Options{})
//
// # Reading
//
// A split is a partition of a topic. It is read directly, without a consumer group: the flow decides which process reads it, and
// from where. Brokers must have version 3.1 or later, whose fetches identify topics by an ID: a topic that is deleted and created
// again has other splits.
//
// A position's Major is the offset of the next record, and its Minor is one more than the epoch of the leader that
// wrote the record. So a floor identifies the history of the partition. If a partition has lost records in an
// unclean election and has others in their place, the error is a [connect.ErrGap]. It is the same error if records
// are gone by age. No offset is ever reset.
//
// Records of a transaction are read only when it is committed, unless [Topic].Client says otherwise.
//
// # Writing
//
// A [Sink] writes each batch in a transaction. The transaction also contains the number of the batch's last element, as the
// offset of a group with which nobody consumes. Readers of committed transactions see each element once. They see the elements of
// a lane in order if these are in one partition of the topic, as elements without a key are. A [PlainSink] is faster and repeats
// elements after a crash.
//
// The transactional ID and the group have the same name, millrace.<flow>.<output>.<partition>, with dots in names written as %2E.
// A broker with access control must grant access to both.
//
// # Clients
//
// TLS, authentication and other settings of the client are options of franz-go, such as [kgo.DialTLSConfig] and [kgo.SASL]. They
// are given in the Client field of [Topic], [Sink] and [PlainSink].
package kafka
