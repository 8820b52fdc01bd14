"""Messages as files and wires have them: .proto files and what protoc makes of them. No logic."""
