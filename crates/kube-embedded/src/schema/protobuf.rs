//! Reads Kubernetes protobuf.
