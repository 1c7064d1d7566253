//! Write coalescing for HTTP/2 connections.
//!
//! The HTTP/2 implementation flushes after almost every frame. A change that a hundred watches of one connection receive would cause a
//! hundred TLS records and system calls. Here a flush is deferred until the connection has been polled ([`FlushingConnection`]); then
//! everything is written at once.
//!
//! Invariant: when the connection future is pending, only a peer that does not read keeps written data in the buffer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Buffer capacity; when it is full, writing waits for the peer.
const BUFFER_CAPACITY: usize = 64 << 10;
/// Writes of at least this size bypass the buffer and are not copied.
const BYPASS_SIZE: usize = 16 << 10;

/// A stream whose flushes are deferred to the end of the connection's poll.
pub struct CoalescingWriter<T>(Arc<Mutex<WriterInner<T>>>);

struct WriterInner<T> {
    stream: T,
    held: BytesMut,
    /// Whether the peer has sent anything.
    has_read: bool,
    /// Since when the peer has accepted no data.
    stalled_since: Option<Instant>,
}

impl<T> Clone for CoalescingWriter<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: AsyncWrite + Unpin> CoalescingWriter<T> {
    pub fn new(stream: T) -> Self {
        Self(Arc::new(Mutex::new(WriterInner {
            stream,
            held: BytesMut::new(),
            has_read: false,
            stalled_since: None,
        })))
    }

    /// Whether the peer has sent anything yet.
    pub fn has_read(&self) -> bool {
        self.0.lock().has_read
    }

    /// How long the peer has accepted no data.
    pub fn stalled_for(&self) -> Duration {
        self.0.lock().stalled_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn poll_flush_buffer(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_drain(context))?;
        Pin::new(&mut inner.stream).poll_flush(context)
    }
}

impl<T: AsyncWrite + Unpin> WriterInner<T> {
    /// Records whether the peer accepted data.
    fn record_progress(&mut self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => _ = self.stalled_since.get_or_insert_with(Instant::now),
            Poll::Ready(_) => self.stalled_since = None,
        }
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let polled = Pin::new(&mut self.stream).poll_write(context, &self.held);
            self.record_progress(&polled);
            let written = ready!(polled)?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CoalescingWriter<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut inner.stream).poll_read(context, buffer);
        inner.has_read |= buffer.filled().len() > before;
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CoalescingWriter<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock();
        if data.len() >= BYPASS_SIZE || inner.held.len() >= BUFFER_CAPACITY {
            ready!(inner.poll_drain(context))?;
        }
        if data.len() >= BYPASS_SIZE {
            let polled = Pin::new(&mut inner.stream).poll_write(context, data);
            inner.record_progress(&polled);
            return polled;
        }
        inner.held.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all: usize = parts.iter().map(|part| part.len()).sum();
        if all >= BYPASS_SIZE {
            let first = parts.iter().find(|part| !part.is_empty());
            return self.poll_write(context, first.map_or(&[], |part| part));
        }
        let mut inner = self.0.lock();
        if inner.held.len() >= BUFFER_CAPACITY {
            ready!(inner.poll_drain(context))?;
        }
        for part in parts {
            inner.held.extend_from_slice(part);
        }
        Poll::Ready(Ok(all))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Deferred to the end of the connection's poll.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush_buffer(context))?;
        Pin::new(&mut self.0.lock().stream).poll_shutdown(context)
    }
}

/// A connection over a [`CoalescingWriter`]: writes out the buffered data after each poll.
pub struct FlushingConnection<C: Future, T> {
    connection: Pin<Box<C>>,
    output: Option<C::Output>,
    stream: CoalescingWriter<T>,
}

impl<C: Future, T> FlushingConnection<C, T> {
    pub fn new(connection: C, stream: CoalescingWriter<T>) -> Self {
        Self { connection: Box::pin(connection), output: None, stream }
    }
}

impl<C, T, E> Future for FlushingConnection<C, T>
where
    C: Future<Output = Result<(), E>>,
    E: From<io::Error> + Unpin,
    T: AsyncWrite + Unpin,
{
    type Output = Result<(), E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.output.is_none()
            && let Poll::Ready(ended) = self.connection.as_mut().poll(context)
        {
            self.output = Some(ended);
        }
        let out = self.stream.poll_flush_buffer(context);
        match (self.output.take(), out) {
            (Some(Err(error)), _) => Poll::Ready(Err(error)),
            (_, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
            (Some(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(Ok(())),
            (ended, _) => {
                self.output = ended;
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn writes_of_one_poll_are_flushed_at_its_end() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let stream = CoalescingWriter::new(near);
        let mut writer = stream.clone();
        let connection = async move {
            for word in ["one ", "two ", "three"] {
                writer.write_all(word.as_bytes()).await?;
                writer.flush().await?;
            }
            let mut buffer = [0; 16];
            let early = far.read(&mut buffer).now_or_never();
            assert!(early.is_none(), "it is not out before the turn ends");
            tokio::task::yield_now().await;
            let count = far.read(&mut buffer).await?;
            assert_eq!(&buffer[..count], b"one two three");
            Ok::<_, io::Error>(())
        };
        FlushingConnection::new(connection, stream).await.unwrap();
    }

    #[tokio::test]
    async fn writer_waits_for_peer_that_does_not_read() {
        let (near, mut far) = tokio::io::duplex(1000);
        let stream = CoalescingWriter::new(near);
        let mut writer = stream.clone();
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let connection = async move {
            // Small writes, then a large one.
            for part in sent[..200_000].chunks(700) {
                writer.write_all(part).await?;
                assert!(writer.0.lock().held.len() < BUFFER_CAPACITY + 700);
            }
            writer.write_all(&sent[200_000..]).await?;
            writer.shutdown().await
        };
        let read = async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        };
        let (ended, all) = tokio::join!(FlushingConnection::new(connection, stream), read);
        ended.unwrap();
        assert!(all == expected);
    }
}
